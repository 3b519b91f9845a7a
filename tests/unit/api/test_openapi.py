"""The description of the API: what client generators make types of."""

from __future__ import annotations

import json
import re

from ebbtide.api.openapi import build_document
from ebbtide.api.server import ENDPOINTS


def test_schemas_have_plain_names_of_their_own() -> None:
    """msgspec names a type by its module where two share a name, and a private one as it is."""
    names = json.loads(build_document(ENDPOINTS))["components"]["schemas"]
    plain = re.compile(r"[A-Z][A-Za-z]+(_[A-Z][A-Za-z]+_)?")  # a page of a kind: ListPage_KeyObject_
    assert [name for name in names if not plain.fullmatch(name)] == []
