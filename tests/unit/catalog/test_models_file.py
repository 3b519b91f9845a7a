"""The models file: everything it can say, and the line of everything it may not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ebbtide.accounts.roles import Role
from ebbtide.catalog.model import TimeLimits
from ebbtide.catalog.models_file import parse_models
from ebbtide.errors import SetupError

WHOLE = """\
models:
  - id: llama-3.1-8b
    aliases: [llama]
    type: chat                    # chat | embedding
    context_length: 131072
    max_output_tokens: 8192
    min_role: pro
    pricing: {input: 0.05, output: 0.08, cached_input: 0.01, cache_write: 0.06}
    batch_price_factor: 0.5
    routes:
      - id: gpu-a
        kind: vllm
        base_url: http://gpu-a:8000/v1/
        model: meta-llama/Llama-3.1-8B-Instruct
        api_key: ${GPU_A_KEY}
        weight: 2
        deployment_type: self_hosted
      - {id: spare, kind: openai, base_url: "https://${SPARE}/v1", weight: 0}
  - id: embedder
    type: embedding
    routes: [{id: here, kind: standin, latency: 0.2}]
"""
ENVIRON = {"GPU_A_KEY": "sk-gpu", "SPARE": "spare.example"}


def test_what_routing_needs_is_read() -> None:
    catalog = parse_models(
        """
models:
  - id: m
    aliases: [mm]
    hedge_after: 2
    timeouts: {connect: 1, first_byte: 5.5}
    routes:
      - {id: a, kind: vllm, base_url: 'http://localhost:1', api_keys: [k1, k2], max_concurrency: 32}
      - {id: b, kind: vllm, base_url: 'http://localhost:2', reserve: true}
  - id: dear
    min_role: admin
    routes: [{id: r, kind: standin}]
auto:
  auto: [dear, mm]
  auto-fast: [m]
""",
        {},
    )
    model = catalog.models[0]
    first, second = model.routes
    assert (model.hedge_after, model.time_limits) == (2.0, TimeLimits(connect=1.0, first_byte=5.5))
    assert (first.api_keys, first.max_concurrency, first.reserve) == (("k1", "k2"), 32, False)
    assert (second.api_keys, second.max_concurrency, second.reserve) == ((), None, True)
    assert [found.id for found in catalog.choices("auto", Role.ADMIN)] == ["dear", "m"]
    assert [found.id for found in catalog.choices("auto", Role.FREE)] == ["m"]
    assert catalog.choices("auto-slow", Role.ADMIN) == []
    assert catalog.resolve("auto") is None


def test_every_key_is_read() -> None:
    llama, embedder = parse_models(WHOLE, ENVIRON).models
    assert (llama.id, llama.aliases, llama.type) == ("llama-3.1-8b", ("llama",), "chat")
    assert (llama.context_length, llama.max_output_tokens, llama.min_role) == (131072, 8192, Role.PRO)
    assert llama.pricing.input == Decimal("0.05")
    assert llama.pricing.output == Decimal("0.08")
    assert llama.pricing.cached_input == Decimal("0.01")
    assert llama.pricing.cache_write == Decimal("0.06")
    assert llama.batch_price_factor == Decimal("0.5")
    first, spare = llama.routes
    assert (first.base_url, first.model, first.api_keys) == (
        "http://gpu-a:8000/v1",
        "meta-llama/Llama-3.1-8B-Instruct",
        ("sk-gpu",),
    )
    assert (first.weight, first.batch_allowed) == (2.0, True)
    assert (spare.base_url, spare.model, spare.weight, spare.batch_allowed) == (
        "https://spare.example/v1",
        "llama-3.1-8b",
        0.0,
        False,
    )
    assert (embedder.type, embedder.routes[0].latency, embedder.routes[0].batch_allowed) == ("embedding", 0.2, True)


def test_defaults_and_an_empty_file() -> None:
    assert parse_models("models: []", {}).models == ()
    text = "models:\n  - id: m\n    pricing: {input: 1, output: 2}\n    routes: [{id: r, kind: standin}]\n"
    (model,) = parse_models(text, {}).models
    assert (model.type, model.min_role, model.batch_price_factor) == ("chat", Role.FREE, Decimal(1))
    assert model.pricing.cached_input == 1
    assert model.pricing.cache_write == 1


def test_a_route_never_shows_its_key() -> None:
    assert "sk-gpu" not in repr(parse_models(WHOLE, ENVIRON))


ROUTE = "\n    routes: [{id: r, kind: standin}]\n"
FAULTS = [
    ("", 1, "array|object|null"),
    ("- a", 1, "object"),
    ("models:\n  - id: m\n   x: [", 3, "expected"),
    ("models:\n  - {id: m, colour: red, routes: []}", 2, r"models\[0\]: unknown key 'colour'"),
    ("models:\n  - id: m" + ROUTE + "extra: 1\n", 4, "unknown key 'extra'"),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: vllm\n        url: x\n", 6, "unknown key 'url'"),
    ("models:\n  - type: chat" + ROUTE, 2, "missing required field `id`"),
    ("models:\n  - id: m\n    type: image" + ROUTE, 3, "image"),
    ("models:\n  - id: m\n    min_role: boss" + ROUTE, 3, "boss"),
    ("models:\n  - id: m\n    context_length: many" + ROUTE, 3, "int"),
    ("models:\n  - id: m\n    context_length: 0" + ROUTE, 3, ">= 1"),
    ("models:\n  - id: auto" + ROUTE, 2, "kept for the automatic choice"),
    ("models:\n  - id: m\n    aliases:\n      - ok\n      - auto-fast" + ROUTE, 5, "auto-fast"),
    ("models:\n  - id: m" + ROUTE + "  - id: m" + ROUTE, 4, "already the name of a model on line 2"),
    ("models:\n  - id: m" + ROUTE + "  - id: n\n    aliases: [m]" + ROUTE, 5, "already the name"),
    ("models:\n  - id: m\n    aliases: [x, x]" + ROUTE, 3, "already the name"),
    ("models:\n  - id: m\n    id: n" + ROUTE, 3, "'id' is repeated"),
    ("models:\n  - id: 'a b'" + ROUTE, 2, "models"),
    ("models:\n  - id: m\n    pricing: {input: -1, output: 2}" + ROUTE, 3, r"pricing\.input: must be 0 or more"),
    ("models:\n  - id: m\n    pricing:\n      input: 1\n      output: .inf" + ROUTE, 5, r"pricing\.output"),
    ("models:\n  - id: m\n    pricing: {input: 0.0000001, output: 2}" + ROUTE, 3, "six decimals"),
    ("models:\n  - id: m\n    pricing: {input: 1}" + ROUTE, 3, "`output`"),
    ("models:\n  - id: m\n    batch_price_factor: -0.5" + ROUTE, 3, "batch_price_factor"),
    ("models:\n  - id: m\n    routes: []\n", 3, "routes"),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: magic\n", 5, "magic"),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: anthropic\n", 5, "max_output_tokens"),
    (
        "models:\n  - id: m\n    type: embedding\n    routes:\n      - id: r\n        kind: anthropic\n",
        6,
        "no embeddings",
    ),
    (
        "models:\n  - id: m\n    routes:\n      - id: r\n        kind: openai\n        base_url: http://x\n"
        "        priority_scheduling: true\n",
        7,
        "only routes of kind vllm and sglang",
    ),
    (
        "models:\n  - id: m\n    routes:\n      - id: r\n        kind: vllm\n        base_url: http://x\n"
        "        api_version: v1\n",
        7,
        "only routes of kind anthropic and gemini",
    ),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: vllm\n", 4, "needs a base_url"),
    ("models:\n  - id: m\n    routes:\n      - {id: r, kind: vllm, base_url: ftp://x}\n", 4, "http"),
    ("models:\n  - id: m\n    routes:\n      - {id: r, kind: vllm, base_url: 'http://u:secret@x'}\n", 4, "api_key"),
    ("models:\n  - id: m\n    routes:\n      - {id: r, kind: vllm, base_url: 'http://x:99999999'}\n", 4, "not a URL"),
    ("models:\n  - id: m\n    routes:\n      - {id: r, kind: standin, base_url: 'http://x'}\n", 4, "no base_url"),
    ("models:\n  - id: m\n    routes:\n      - {id: r, kind: vllm, base_url: 'http://x', latency: 1}\n", 4, "latency"),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: standin\n        weight: -1\n", 6, "weight"),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: standin\n        weight: .inf\n", 6, "finite"),
    (
        "models:\n  - id: m\n    routes:\n      - {id: r, kind: standin}\n      - {id: r, kind: standin}\n",
        5,
        "repeated",
    ),
    (
        "models:\n  - id: m\n    routes:\n      - id: r\n        kind: standin\n        model: ${NO_SUCH}\n",
        6,
        "NO_SUCH",
    ),
    ("models:\n  - id: m\n    hedge_after: 0" + ROUTE, 3, "> 0"),
    ("models:\n  - id: m\n    timeouts: {first: 1}" + ROUTE, 3, "unknown key 'first'"),
    ("models:\n  - id: m\n    timeouts:\n      total: 0" + ROUTE, 4, "total"),
    ("models:\n  - id: m\n    routes:\n      - id: r\n        kind: standin\n        max_concurrency: 0\n", 6, ">= 1"),
    (
        "models:\n  - id: m\n    routes:\n      - {id: r, kind: vllm, base_url: 'http://x', api_key: a, api_keys: [b]}",
        4,
        "either api_key or api_keys",
    ),
    (
        "models:\n  - id: m\n    routes:\n      - {id: r, kind: vllm, base_url: 'http://x', api_keys: [b, b]}\n",
        4,
        "a key is repeated",
    ),
    ("models:\n  - id: m" + ROUTE + "auto:\n  fast: [m]\n", 5, "no automatic name"),
    ("models:\n  - id: m" + ROUTE + "auto:\n  auto-fast:\n    - m\n    - n\n", 7, "not a chat model"),
    ("models:\n  - id: m" + ROUTE + "auto:\n  auto: []\n", 5, "lists no model"),
    ("models: &a\n  - *a\n", 1, "anchors and aliases"),
    ("models:\n  - *a\n", 2, "anchors and aliases"),
    (
        "a: &a [x]\n"
        + "".join(f"{c}: &{c} [{', '.join(['*' + p] * 9)}]\n" for p, c in [("a", "b"), ("b", "c"), ("c", "d")]),
        1,
        "anchors",
    ),
    ("models:\n  - " + "[" * 5000, 2, "nested too deeply"),
    ("models:\n" + "".join("  " * n + f"k{n}:\n" for n in range(1, 3000)), 17, "nested too deeply"),
    ("models:\n  - id: \x01\n", 2, "does not allow"),
    ("models:\n  - id: a\x00\n", 2, "does not allow"),
    ("models:\n  - id: !!timestamp x\n", 2, "not a value"),
    ("models:\n  - id: !!bool x\n", 2, "not a value"),
    ("models:\n  - id: !!float ''\n", 2, "not a value"),
    ("models:\n  - id: !!int\n", 2, "not a value"),
    ("models:\n  - id: 0001-01-01T00:00:00+99:00\n", 2, "not a value"),
    ("models:\n  - id: m\n    context_length: 1" + ":1" * 100_000 + ROUTE, 3, "longer than any number"),
    ("models:\n  - id: m\n    context_length: " + "9" * 5000 + ROUTE, 3, "longer than any number"),
    ('models:\n  - id: "\\UFFFFFFFF"\n', 2, "not valid YAML"),
    ('models:\n  - id: m\n    aliases: ["\\ud800"]' + ROUTE, 3, "half a character"),
    ('models:\n  - "\\ud800": m\n', 2, "half a character"),
    ("%YAML " + "9" * 5000 + ".1\n---\nmodels: []\n", 1, "not valid YAML"),
    ("models: !!seq x\n", 1, "tag"),
    ("models: !!set {a}\n", 1, "tag"),
    ("models: !!binary x\n", 1, "tag"),
    ("models: !<tag:yaml.org,2002:%FF> x\n", 1, "utf-8"),
    ("models:\n  - id: m\n    routes: [{id: r, kind: standin, latency: .nan}]\n", 3, "latency"),
    ("models:\n  - id: m\n    routes: [{id: r, kind: standin, weight: .nan}]\n", 3, "weight"),
    ("models:\n  - id: m\n    pricing: {input: '1e999999999', output: 2}" + ROUTE, 3, r"pricing\.input"),
    ("models:\n  - id: m\n    pricing: {input: .nan, output: 2}" + ROUTE, 3, r"pricing\.input"),
    ("models: []\n---\nmodels: []\n", 2, "document"),
    ("models: !!python/object:os.system x", 1, "tag"),
    ("models:\n  - id: m\n    context_length: 0x" + ROUTE, 3, "int"),
    ("models:\n  - id: 2001-99-99\n", 2, "not a value"),
    ("models:\n  - [1, 2]: x\n", 2, "plain name"),
]


@pytest.mark.parametrize(("text", "line", "words"), FAULTS)
def test_a_fault_names_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(SetupError, match=words) as caught:
        parse_models(text, {}, name="ebbtide.yaml")
    assert caught.value.message.startswith(f"ebbtide.yaml, line {line}: ")
    assert "secret" not in caught.value.message


def test_a_missing_variable_names_line_and_name() -> None:
    with pytest.raises(SetupError, match=r"^f, line 15: .*GPU_A_KEY"):
        parse_models(WHOLE, {"SPARE": "x"}, name="f")


def test_vendors_have_their_own_base_url() -> None:
    text = "models: [{id: m, max_output_tokens: 9, routes: [{id: a, kind: anthropic}, {id: g, kind: gemini}]}]"
    routes = parse_models(text, {}).models[0].routes
    assert [route.base_url for route in routes] == [
        "https://api.anthropic.com",
        "https://generativelanguage.googleapis.com",
    ]
