"""Trusted proxies: the client's address is the header's where a trusted proxy sent it, and nobody else can make one up."""

from __future__ import annotations

import pytest

from srb.config.settings import Settings
from srb.config.trusted_proxies import proxies_of
from srb.errors import ConfigError
from srb.web.app import create_app
from tests.scripted import ScriptedClient

CHAIN = "127.0.0.1, 10.0.0.0/8, 2001:db8::/32, unix"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "6.6.6.6, 203.0.113.7", "203.0.113.7"),  # the first was sent by the client
        ("127.0.0.1", "6.6.6.6, 203.0.113.7, 10.1.2.3", "203.0.113.7"),
        ("10.255.0.1", "6.6.6.6,203.0.113.7,10.1.2.3,127.0.0.1", "203.0.113.7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),  # a machine of the proxies' own network
        ("127.0.0.1", "2001:DB8:0::1", "2001:db8::1"),
        ("2001:db8::5", "2001:dead:0:0::1", "2001:dead::1"),
        ("127.0.0.1", "[2001:dead::1]:443", "2001:dead::1"),
        ("127.0.0.1", "203.0.113.7:5678", "203.0.113.7"),
        ("::ffff:127.0.0.1", "::ffff:203.0.113.7", "203.0.113.7"),
        ("", "203.0.113.7", "203.0.113.7"),  # a Unix socket
        ("", "", ""),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7, unknown", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7, 10.0.0.9, x\x1b[2J", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.7, junk, 10.0.0.9", "10.0.0.9"),
        ("127.0.0.1", "fe80::1%\x1b[2J", "fe80::1"),
        ("127.0.0.1", "203.0.113.7,", "127.0.0.1"),
        ("198.51.100.1", "203.0.113.7", "198.51.100.1"),  # no trusted proxy
        ("198.51.100.1", "127.0.0.1", "198.51.100.1"),
    ],
)
def test_the_client_is_the_rightmost_address_that_is_no_trusted_proxy(peer: str, forwarded: str, client: str) -> None:
    assert proxies_of(CHAIN).client(peer, forwarded) == client


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.1", "::1", ""])
def test_without_the_setting_the_header_has_no_effect(peer: str) -> None:
    assert Settings().trusted_proxies == ""
    assert proxies_of("").client(peer, "203.0.113.7") == peer


def test_a_unix_socket_is_trusted_only_by_its_name() -> None:
    assert proxies_of("0.0.0.0/0,::/0").client("", "203.0.113.7") == ""
    assert proxies_of("unix").client("127.0.0.1", "203.0.113.7") == "127.0.0.1"


@pytest.mark.parametrize(
    "text", ["nginx", "10.0.0.1/8", "10.0.0.0/33", "127.0.0.1:80", "127.0.0.1;10.0.0.1", "/run/x.sock"]
)
def test_a_malformed_address_is_told_at_the_start_with_the_settings_name(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"trusted_proxies \(from SRB_TRUSTED_PROXIES\): should be addresses and networks"
    ):
        Settings.load(environ={"SRB_TRUSTED_PROXIES": f"127.0.0.1,{text}"})


def test_each_client_behind_a_proxy_has_a_rate_and_a_log_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    chosen = Settings(rate_limit=1, trusted_proxies="127.0.0.1")
    http = create_app(chosen, ScriptedClient(chosen)).test_client()

    def ask(forwarded: str, peer: str = "127.0.0.1") -> int:
        headers, environ = {"X-Forwarded-For": forwarded}, {"REMOTE_ADDR": peer}
        return http.post("/tokenize", json={"content": "x"}, headers=headers, environ_overrides=environ).status_code

    with caplog.at_level("INFO", "srb.web"):
        assert [ask("203.0.113.7"), ask("6.6.6.6, 203.0.113.7"), ask("203.0.113.8")] == [200, 429, 200]
        assert [ask("203.0.113.9", "198.51.100.1"), ask("203.0.113.10", "198.51.100.1")] == [200, 429]
    clients = [record.args["client"] for record in caplog.records if isinstance(record.args, dict)]
    assert clients == ["203.0.113.7", "203.0.113.7", "203.0.113.8", "198.51.100.1", "198.51.100.1"]


def test_a_refused_key_is_logged_with_the_address_of_its_client(caplog: pytest.LogCaptureFixture) -> None:
    chosen = Settings(api_key="secret", trusted_proxies="unix")
    http = create_app(chosen, ScriptedClient(chosen)).test_client()
    headers = {"X-Forwarded-For": "203.0.113.7"}
    with caplog.at_level("INFO", "srb.web"):
        http.post("/tokenize", json={}, headers=headers, environ_overrides={"REMOTE_ADDR": ""})
    [record] = caplog.records
    client, _, status = record.getMessage().split()[2:5]
    assert (client, status) == ("203.0.113.7", "401,")
