"""Which URLs and addresses an event may be sent to, however they are spelled."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from ebbtide.delivery.addresses import BadTarget, check_target, parse_url, reach

PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450::5"]
PRIVATE = ["10.0.0.1", "127.0.0.1", "127.9.9.9", "172.16.0.1", "172.31.255.255", "192.168.1.1", "::1", "fd12::1"]
REFUSED = [
    "0.0.0.0",  # this host
    "0.1.2.3",
    "100.64.0.1",  # carrier-grade NAT
    "100.100.100.200",  # metadata of a cloud inside it
    "100.127.255.255",
    "168.63.129.16",  # a cloud's own service at a public address
    "169.254.1.1",  # link-local
    "169.254.169.254",  # metadata
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",  # multicast
    "239.255.255.255",
    "240.0.0.1",  # reserved
    "255.255.255.255",
    "::",
    "::127.0.0.1",  # IPv4-compatible
    "::8.8.8.8",
    "::ffff:127.0.0.1",  # IPv4-mapped
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",  # IPv4-translated
    "64:ff9b::7f00:1",  # NAT64
    "64:ff9b::808:808",
    "64:ff9b:1::a00:1",  # local NAT64
    "100::1",  # discard
    "2001::1",  # Teredo
    "2001:0:7f00:1::",
    "2001:2::1",  # benchmarks
    "2001:10::1",  # ORCHID
    "2001:db8::1",  # documentation
    "2002:7f00:1::",  # 6to4
    "2002:808:808::1",
    "3fff::1",
    "4000::1",  # not given out
    "5f00::1",
    "fd00:ec2::254",  # metadata
    "fe80::1",  # link-local
    "fec0::1",  # site-local
    "ff02::1",  # multicast
]


@pytest.mark.parametrize(
    ("address", "expected"),
    [(a, "public") for a in PUBLIC] + [(a, "private") for a in PRIVATE] + [(a, "refused") for a in REFUSED],
)
def test_who_is_at_an_address(address: str, expected: str) -> None:
    assert reach(ip_address(address)) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://2130706433/",  # decimal
        "https://0x7f000001/",
        "https://0x7f.1/",  # hexadecimal
        "https://0177.0.0.1/",  # octal
        "https://127.1/",
        "https://127.0.0.01/",
        "https://127.0.0.0x1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://127.0.0.1./",
        "https://example.com.0x/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://[1.2.3.4]/",
        "https://%31%32%37.0.0.1/",
        "https://exam ple.com/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com\n/",
        "https://exa\tmple.com/",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://:pw@example.com/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://-a.example.com/",
        "https://a..example.com/",
        "https://" + "a" * 64 + ".com/",
        "https://" + "a." * 127 + "com/",
        "https:///path",
        "https://",
        "//example.com/",
        "example.com",
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "",
        "https://example.com/" + "a" * 2_048,
    ],
)
def test_urls_that_are_refused_as_they_are_written(url: str) -> None:
    with pytest.raises(BadTarget, match=r"^url: "):
        parse_url(url, allow_private=False)


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://Example.com", "https://example.com"),
        ("https://example.com:8443/a?b=c%26d#part", "https://example.com:8443/a?b=c%26d"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700::1111]:444/", "https://[2606:4700::1111]:444/"),
        ("https://b\u00fccher.example/", "https://xn--bcher-kva.example/"),
        ("https://a_b.1st.example./?at=me@home", "https://a_b.1st.example./?at=me@home"),
    ],
)
def test_urls_that_are_kept(url: str, kept: str) -> None:
    assert str(parse_url(url, allow_private=False)) == kept


@pytest.mark.parametrize("host", [f"[{a}]" if ":" in a else a for a in (*PRIVATE, *REFUSED, "１２７.0.0.1")])
async def test_an_address_in_the_url_is_checked(host: str) -> None:
    with pytest.raises(BadTarget, match="not public"):
        await check_target(f"https://{host}/", _nothing, allow_private=False)


@pytest.mark.parametrize("address", [*PRIVATE, *REFUSED, "fe80::1%eth0"])
async def test_every_address_of_a_name_is_checked(address: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8", address]

    with pytest.raises(BadTarget, match="not public"):
        await check_target("https://hooks.example/", resolve, allow_private=False)


async def test_what_was_checked_is_what_is_connected_to() -> None:
    asked: list[tuple[str, int]] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["8.8.8.8", "2606:4700:0:0::1111"]

    target = await check_target("https://hooks.example:8443/a", resolve, allow_private=False)
    assert target.addresses == ("8.8.8.8", "2606:4700::1111")
    assert asked == [("hooks.example", 8443)]


async def test_a_name_that_leads_nowhere() -> None:
    with pytest.raises(BadTarget, match="no address"):
        await check_target("https://hooks.example/", _nothing, allow_private=False)


async def test_private_targets_when_they_are_allowed() -> None:
    for address in PRIVATE:
        host = f"[{address}]" if ":" in address else address
        assert (await check_target(f"http://{host}/", _nothing, allow_private=True)).addresses
    for address in REFUSED:
        host = f"[{address}]" if ":" in address else address
        with pytest.raises(BadTarget):
            await check_target(f"https://{host}/", _nothing, allow_private=True)


async def _nothing(host: str, port: int) -> list[str]:
    raise OSError("no such name")
