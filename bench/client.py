"""One HTTP request from a process of its own, so that the client's work never counts as the gateway's.

Prints JSON: status, seconds from sending to the last byte, bytes of the answer, and the answer where it is short.
"""

from __future__ import annotations

import argparse
import http.client
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

_SHORT = 1 << 16
_PIECE = 1 << 18


def call(given: argparse.Namespace) -> dict[str, object]:
    parts = urlsplit(given.url)
    body = given.body.read_bytes() if given.body else None
    headers = {"Authorization": f"Bearer {given.key}", "Content-Type": given.content_type}
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    connection.connect()
    if given.wait:
        input()
    began = time.perf_counter()
    connection.request(given.method, parts.path + (f"?{parts.query}" if parts.query else ""), body, headers)
    response = connection.getresponse()
    size, kept = 0, b""
    while piece := response.read(_PIECE):
        size += len(piece)
        kept = kept + piece if size <= _SHORT else b""
    seconds = time.perf_counter() - began
    return {"status": response.status, "seconds": seconds, "size": size, "text": kept.decode()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("url")
    parser.add_argument("--key", required=True)
    parser.add_argument("--body", type=Path)
    parser.add_argument("--wait", action="store_true", help="for a line on standard input before sending")
    parser.add_argument("--content-type", default="application/json")
    print(json.dumps(call(parser.parse_args())))
