"""Accounts removed for good, over HTTP and by command: in force at once, and shown how far it is."""

from __future__ import annotations

from tests.gateway import TestGateway, request_line

from ebbtide.accounts.roles import Role


async def test_an_account_is_gone_at_once_and_its_removal_is_shown(gateway: TestGateway) -> None:
    key = await gateway.new_key("ada", Role.INTERNAL)
    account = (await gateway.call("GET", "/user", key=key)).json["account"]["id"]
    assert (await gateway.call("POST", "/v1/batches", key=key, json={"requests": [request_line("a")]})).status == 200
    assert (await gateway.call("DELETE", f"/admin/accounts/{account}?permanent=yes")).error["param"] == "permanent"
    asked = await gateway.call("DELETE", f"/admin/accounts/{account}?permanent=true")
    assert (asked.status, asked.json["state"], asked.json["finished_at"]) == (202, "purging", None)
    assert (await gateway.call("GET", "/user", key=key)).status == 401
    assert (await gateway.call("GET", f"/admin/accounts/{account}")).status == 404
    assert (await gateway.call("GET", f"/admin/purges/{account}")).json == asked.json
    second = await gateway.new_key("ada", Role.INTERNAL)  # the name is free
    other = (await gateway.call("GET", "/user", key=second)).json["account"]["id"]
    await gateway.call("DELETE", f"/admin/accounts/{other}")
    deleted = (await gateway.call("GET", "/admin/accounts?state=deleted&search=ada")).json["data"]
    assert [(one["id"], one["state"]) for one in deleted] == [(account, "deleted"), (other, "deleted")]
    assert (await gateway.call("GET", "/admin/accounts?search=ada")).json["data"] == []
    assert (await gateway.call("DELETE", f"/admin/accounts/{other}?permanent=true")).status == 202
    first = (await gateway.call("GET", "/admin/purges?limit=1")).json
    assert ([one["id"] for one in first["data"]], first["has_more"]) == ([other], True)
    rest = (await gateway.call("GET", f"/admin/purges?after={other}")).json
    assert ([one["id"] for one in rest["data"]], rest["has_more"]) == ([account], False)
    assert (await gateway.call("GET", "/admin/purges?after=nobody")).error["param"] == "after"
    assert (await gateway.call("GET", f"/admin/purges/{key}")).status == 404
    audit = (await gateway.call("GET", f"/admin/audit?account_id={account}")).json["data"]
    assert (audit[0]["action"], audit[0]["detail"]) == ("account.purge", {"name": "ada"})


async def test_only_administrators_remove_accounts(gateway: TestGateway) -> None:
    key = await gateway.new_key("eve", Role.INTERNAL)
    me = (await gateway.call("GET", "/user")).json["account"]["id"]
    for method, path in (("DELETE", f"/admin/accounts/{me}?permanent=true"), ("GET", "/admin/purges")):
        assert (await gateway.call(method, path, key=key)).status == 403
    assert (await gateway.call("DELETE", f"/admin/accounts/{me}?permanent=true")).status == 409
