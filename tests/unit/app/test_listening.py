"""The listening socket: made, taken over, and refused in words."""

from __future__ import annotations

import os
import socket

import pytest

from ebbtide.errors import SetupError
from ebbtide.listening import adopt, listen


def test_a_taken_port_is_refused_in_words() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SetupError, match=f"127.0.0.1 port {port}"):
            listen("127.0.0.1", port)


def test_connections_inherit_the_limit_on_stalled_peers() -> None:
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        pytest.skip("the kernel has no such limit")
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0


def test_a_descriptor_is_taken_over_if_it_is_a_socket() -> None:
    with listen("127.0.0.1", 0) as listener, adopt(os.dup(listener.fileno())) as adopted:
        assert adopted.getsockname() == listener.getsockname()
    with open(os.devnull) as file, pytest.raises(SetupError, match="descriptor"):  # noqa: PTH123
        adopt(file.fileno())
