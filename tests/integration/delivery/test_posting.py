"""One try over real HTTPS: redirects, names that change their address, certificates, and failures in words."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trustme
from tests.webhook_receiver import HANG, Answer, Receiver

from ebbtide.delivery.post import Delivered, Letter, Poster, Undelivered
from ebbtide.errors import SetupError


def letter(url: str, *, allow_private: bool = True) -> Letter:
    return Letter(url, {"webhook-id": "evt_1"}, b'{"id":"evt_1"}', allow_private)


class Names:
    """A name server: each look-up of a name takes the next of its answers, the last one stays."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = {name.replace("_", "."): list(addresses) for name, addresses in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        addresses = self._answers.get(host, ["127.0.0.1"])
        return [addresses.pop(0) if len(addresses) > 1 else addresses[0]]


async def test_a_delivery(receiver: Receiver, ca_file: Path) -> None:
    outcome = await Poster(ca_file, resolve=Names()).post(letter(receiver.url("/a?b=c")))
    assert outcome == Delivered(200)
    got = receiver.got[0]
    assert (got.path, got.body, got.event_id) == ("/a", b'{"id":"evt_1"}', "evt_1")
    assert got.headers["host"] == f"hooks.example:{receiver.port}"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["user-agent"].startswith("Ebbtide/")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_counts(receiver: Receiver, ca_file: Path, status: int) -> None:
    receiver.answers["/hook"] = Answer(status)
    assert await Poster(ca_file, resolve=Names()).post(letter(receiver.url())) == Delivered(status)


@pytest.mark.parametrize("status", [300, 303, 304, 400, 401, 404, 410, 429, 500, 503])
async def test_anything_else_does_not_and_its_body_is_not_told(receiver: Receiver, ca_file: Path, status: int) -> None:
    receiver.answers["/hook"] = Answer(status, "/other" if status == 303 else None)
    outcome = await Poster(ca_file, resolve=Names()).post(letter(receiver.url()))
    assert outcome == Undelivered(f"Answered with status {status}", status)
    assert len(receiver.got) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_followed_with_the_event(receiver: Receiver, ca_file: Path, status: int) -> None:
    names = Names()
    receiver.answers["/hook"] = Answer(status, "/b")
    receiver.answers["/b"] = Answer(status, "c?x=1")
    receiver.answers["/c"] = Answer(status, receiver.url("/d"))
    assert await Poster(ca_file, resolve=names).post(letter(receiver.url())) == Delivered(200)
    assert [got.path for got in receiver.got] == ["/hook", "/b", "/c", "/d"]
    assert {got.body for got in receiver.got} == {b'{"id":"evt_1"}'}
    assert names.asked == ["hooks.example"] * 4, "each hop is looked up and checked anew"


async def test_a_fourth_redirect_is_not_followed(receiver: Receiver, ca_file: Path) -> None:
    receiver.answers["/hook"] = Answer(307, "/hook")
    outcome = await Poster(ca_file, resolve=Names()).post(letter(receiver.url()))
    assert outcome == Undelivered("Redirected more than 3 times", 307)
    assert len(receiver.got) == 4


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("https://169.254.169.254/latest/meta-data", "not public"),
        ("https://[::ffff:127.0.0.1]/", "not public"),
        ("https://2852039166/", "unusual way"),
        ("https://metadata.example/", "not public"),
        ("https://user:pw@hooks.example/", "user name"),
        ("ftp://hooks.example/", "https://"),
        ("https://[bad", "not HTTP"),
    ],
)
async def test_a_redirect_to_where_nothing_may_go(receiver: Receiver, ca_file: Path, location: str, words: str) -> None:
    receiver.answers["/hook"] = Answer(302, location)
    poster = Poster(ca_file, resolve=Names(metadata_example=["169.254.169.254"]))
    outcome = await poster.post(letter(receiver.url()))
    assert isinstance(outcome, Undelivered)
    assert words in outcome.words
    assert len(receiver.got) == 1


async def test_a_private_address_is_refused_on_every_connection(receiver: Receiver, ca_file: Path) -> None:
    poster = Poster(ca_file, resolve=Names())
    outcome = await poster.post(letter(receiver.url(), allow_private=False))
    assert outcome == Undelivered("Not sent: it leads to an address that is not public")
    literal = await poster.post(letter(f"https://127.0.0.1:{receiver.port}/", allow_private=False))
    assert literal == outcome
    assert receiver.got == []


async def test_a_name_that_changes_its_address_is_not_followed_there(receiver: Receiver, ca_file: Path) -> None:
    """The answer that was checked is the one that is used: nothing looks the name up a second time."""
    names = Names(hooks_example=["192.0.2.1", "127.0.0.1"])
    poster = Poster(ca_file, resolve=names, timeout=0.2)
    refused = await poster.post(letter(receiver.url(), allow_private=False))
    assert refused == Undelivered("Not sent: it leads to an address that is not public")
    assert names.asked == ["hooks.example"]
    names = Names(hooks_example=["127.0.0.1", "169.254.169.254"])
    assert await Poster(ca_file, resolve=names).post(letter(receiver.url())) == Delivered(200)
    assert names.asked == ["hooks.example"]
    assert await Poster(ca_file, resolve=names).post(letter(receiver.url())) == refused


async def test_the_machines_own_name_server_is_not_asked_for_the_connection(ca_file: Path, receiver: Receiver) -> None:
    """`localhost` would lead here by itself; the checked answer says elsewhere, so nothing arrives."""
    receiver.name = "localhost"
    poster = Poster(ca_file, resolve=Names(localhost=["127.0.0.2"]))
    assert await poster.post(letter(receiver.url())) == Undelivered("No connection could be made")
    assert receiver.got == []


async def test_the_certificate_must_be_for_the_name(receiver: Receiver, ca_file: Path) -> None:
    receiver.name = "other.example"
    outcome = await Poster(ca_file, resolve=Names()).post(letter(receiver.url()))
    assert outcome == Undelivered("The server's certificate is not valid for this name or not trusted")
    assert receiver.got == []


async def test_an_unknown_authority_is_not_trusted(receiver: Receiver) -> None:
    outcome = await Poster(resolve=Names()).post(letter(receiver.url()))
    assert outcome == Undelivered("The server's certificate is not valid for this name or not trusted")


async def test_an_authority_file_that_cannot_be_read(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for path in (empty, tmp_path / "missing.pem"):
        with pytest.raises(SetupError, match="EBBTIDE_WEBHOOK_CA_FILE"):
            Poster(path)


async def test_plain_http_only_where_private_targets_are_allowed(ca_file: Path) -> None:
    async with Receiver(None, "hooks.example") as receiver:
        poster = Poster(ca_file, resolve=Names())
        assert await poster.post(letter(receiver.url())) == Delivered(200)
        refused = await poster.post(letter(receiver.url(), allow_private=False))
        assert refused == Undelivered("Not sent: it must begin with https://")
        tls = await poster.post(letter(receiver.url().replace("http:", "https:")))
        assert tls == Undelivered("No TLS connection could be made")
        assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "The connection was closed before an answer came"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "The answer was not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut", None),
    ],
)
async def test_servers_that_are_none(said: bytes, words: str | None) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(said)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        outcome = await Poster(resolve=Names()).post(letter(f"http://hooks.example:{port}/"))
    assert outcome == (Delivered(200) if words is None else Undelivered(words))


async def test_a_server_that_does_not_answer(receiver: Receiver, ca_file: Path) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    outcome = await Poster(ca_file, resolve=Names(), timeout=0.3).post(letter(receiver.url()))
    assert outcome == Undelivered("No answer within 0.3 seconds", timed_out=True)


async def test_a_name_server_that_does_not_answer(ca_file: Path) -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    outcome = await Poster(ca_file, resolve=hang, timeout=0.05).post(letter("https://hooks.example/"))
    assert outcome == Undelivered("No answer within 0.05 seconds", timed_out=True)


async def test_redirects_share_one_time_limit(receiver: Receiver, ca_file: Path) -> None:
    receiver.answers["/hook"] = Answer(307, "/slow")
    receiver.answers["/slow"] = Answer(HANG)
    outcome = await Poster(ca_file, resolve=Names(), timeout=0.5).post(letter(receiver.url()))
    assert outcome == Undelivered("No answer within 0.5 seconds", timed_out=True)


async def test_the_real_name_server_is_asked(authority: trustme.CA, ca_file: Path) -> None:
    async with Receiver(authority, "localhost") as receiver:
        assert await Poster(ca_file).post(letter(receiver.url())) == Delivered(200)
        refused = await Poster(ca_file).post(letter(receiver.url(), allow_private=False))
        assert refused == Undelivered("Not sent: it leads to an address that is not public")
