"""The listening socket: one that a parent process hands over, or a new one. Imports nothing heavy."""

from __future__ import annotations

import os
import socket
from typing import Final

from ebbtide.errors import SetupError

_BACKLOG: Final = 2048
_STALLED_SECONDS: Final = 300  # a peer that takes not one byte for as long has its connection cut, where the kernel can


def listen(host: str, port: int) -> socket.socket:
    """A new listening socket. Raises SetupError when the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else error.strerror
        raise SetupError(
            f"Cannot listen on {host} port {port}: {reason}; choose another with --port or EBBTIDE_PORT"
        ) from error
    # Connections inherit these. An answer goes out in two pieces, and the second would wait for an ACK of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED_SECONDS * 1000)
    return listener


def adopt(fd: int) -> socket.socket:
    """The listening socket behind an inherited descriptor. Raises SetupError when it is none."""
    try:
        return socket.socket(fileno=fd)
    except OSError as error:
        raise SetupError(f"Cannot listen on descriptor {fd}: {error.strerror}") from error
