"""One batch, told by every page that tells of it: the same counts, tokens and dollars everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, models_file, request_line, start_gateway, until

from ebbtide.accounts.roles import Role


async def test_batch_object_results_log_summary_and_own_pages_agree(
    database_url: str, listen_url: str, upstream: FakeUpstream, tmp_path: Path
) -> None:
    priced = {"input": 3, "output": 7, "cached_input": 1}
    models = models_file(tmp_path, chat_model(upstream.url, pricing=priced, batch_price_factor=0.5))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        key = await gateway.new_key("ada", Role.INTERNAL)
        texts = [*("word " * n for n in range(1, 6)), "behave:cached=1", "behave:status=400", "behave:usage=none"]
        batch = await run(gateway, key, [request_line(f"r{n}", text=text) for n, text in enumerate(texts)])
        counts, usage = batch["request_counts"], batch["usage"]
        assert (counts["total"], counts["completed"], counts["failed"]) == (8, 7, 1)
        assert (usage["input_tokens_details"]["cached_tokens"], batch["cost_unknown_attempts"]) == (1, 1)
        tokens = (usage["input_tokens"], usage["output_tokens"])
        assert batch["cost_usd"] > 0

        log = (await gateway.call("GET", f"/admin/recent-requests?batch_id={batch['id']}")).json["data"]
        assert (len(log), sum(row["error"] is not None for row in log)) == (8, 1)
        assert figures(log, "prompt_tokens", "completion_tokens", "cost_usd") == (*tokens, batch["cost_usd"])

        summary = (await gateway.call("GET", "/admin/batch/summary")).json
        (user,) = summary["users"]
        for totals in (summary["totals"], user["totals"]):
            assert (totals["succeeded"], totals["failed"], totals["cost_unknown_attempts"]) == (7, 1, 1)
            assert (totals["input_tokens"], totals["output_tokens"], totals["cost_usd"]) == (*tokens, batch["cost_usd"])

        own = (await gateway.call("GET", "/user/usage", key=key)).json
        assert own["cost_usd"] == batch["cost_usd"]
        for rows, requests in ((own["keys"], 6), (own["models"], 8)):  # what was charged for, what was asked
            told = figures(rows, "requests", "prompt_tokens", "completion_tokens", "cost_usd")
            assert told == (requests, *tokens, batch["cost_usd"])
        assert (await gateway.call("GET", "/user", key=key)).json["spent_today_usd"] == batch["cost_usd"]


async def run(gateway: TestGateway, key: str, lines: list[dict[str, Any]]) -> Any:
    answer = await gateway.call("POST", "/v1/batches", key=key, json={"requests": lines})
    assert answer.status == 200, answer.body

    async def ended() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{answer.json['id']}", key=key)).json
        return batch if batch["status"] == "completed" else None

    return await until(ended)


def figures(rows: list[Any], *names: str) -> tuple[Any, ...]:
    """The sums of these members, to the trillionth of a dollar."""
    return tuple(round(sum(row[name] or 0 for row in rows), 12) for name in names)
