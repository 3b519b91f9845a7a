"""The multipart form of a file upload."""

from __future__ import annotations

_BOUNDARY = "bench-boundary"
FORM_TYPE = f"multipart/form-data; boundary={_BOUNDARY}"


def upload_form(content: bytes) -> bytes:
    """A form with purpose and file."""
    head = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode() + content + f"\r\n--{_BOUNDARY}--\r\n".encode()
