"""How the console is served: one document for every page, files for good, a policy that lets nothing else in."""

from __future__ import annotations

import gzip
import re

from tests.gateway import TestGateway

from ebbtide.api.console import FILES

FIRST_LOAD = 300_000  # bytes, compressed
_LINKED = re.compile(r'(?:src|href)="(/console/[^"]+)"')


async def test_every_page_is_the_one_document_under_a_strict_policy(gateway: TestGateway) -> None:
    nonces = set()
    for path in ("/console", "/console/", "/console/batches/batch_1", "/console/index.html"):
        answer = await gateway.call("GET", path, key=None)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["cache-control"] == "no-store"
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "default-src 'none'; script-src 'self';" in policy
        found = re.search(r"'nonce-([\w-]+)'", policy)
        assert found is not None
        assert f'nonce="{found[1]}"'.encode() in answer.body
        nonces.add(found[1])
        assert not re.search(rb"<script(?![^>]*\bsrc=)", answer.body)
    assert len(nonces) == 4


async def test_files_are_kept_by_browsers_and_sent_compressed(gateway: TestGateway) -> None:
    document = (await gateway.call("GET", "/console", key=None)).body.decode()
    script = next(path for path in _LINKED.findall(document) if path.endswith(".js") and "/assets/" in path)
    plain = await gateway.call("GET", script, key=None, headers={"Accept-Encoding": "identity"})
    packed = await gateway.call("GET", script, key=None, headers={"Accept-Encoding": "gzip, br"})
    assert plain.status == packed.status == 200
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.headers["etag"] != plain.headers["etag"]
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["content-type"].startswith("text/javascript")
    named = {"If-None-Match": packed.headers["etag"], "Accept-Encoding": "gzip"}
    assert (await gateway.call("GET", script, key=None, headers=named)).status == 304
    icon = await gateway.call("GET", "/console/icon.svg", key=None)
    assert icon.headers["cache-control"] == "no-cache"


async def test_a_file_of_another_version_is_not_found(gateway: TestGateway) -> None:
    for path in ("/console/assets/index-old.js", "/console/assets/"):
        answer = await gateway.call("GET", path, key=None)
        assert answer.status == 404, path
        assert "load the page again" in answer.error["message"]


async def test_the_first_page_is_small_and_loads_from_the_gateway_alone(gateway: TestGateway) -> None:
    document = await gateway.call("GET", "/console", key=None)
    wanted = _LINKED.findall(document.body.decode())
    assert len(wanted) >= 3
    size = len(document.body)
    for path in wanted:
        answer = await gateway.call("GET", path, key=None, headers={"Accept-Encoding": "gzip"})
        assert answer.status == 200
        size += len(answer.body)
    largest = max(len(gzip.compress(path.read_bytes())) for path in (FILES / "assets").glob("overview*.js"))
    assert size + largest < FIRST_LOAD, size


def test_styles_and_scripts_name_no_other_host() -> None:
    for path in FILES.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", path.read_text()), path
    for path in FILES.rglob("*.js"):
        assert "import('http" not in path.read_text(), path
