"""Each address that a server can listen on leads to a runtime folder of its own."""

from __future__ import annotations

from itertools import combinations

import pytest

from srb.config.settings import Settings
from srb.serve.engine_environ import Address, engine_environ, folder_name

ADDRESSES: list[Address] = [
    ("127.0.0.1", 9090),
    ("127.0.0.1", 9091),
    ("127.0.0.2", 9090),
    ("::1", 9090),
    ("::", 9090),
    "/run/one.sock",
    "/run/other.sock",
    "one.sock",
    "\0one.sock",
]


@pytest.mark.parametrize(("one", "other"), list(combinations(ADDRESSES, 2)))
def test_servers_that_can_listen_side_by_side_have_different_folders(one: Address, other: Address) -> None:
    assert folder_name(one) != folder_name(other)


@pytest.mark.parametrize("address", [*ADDRESSES, ("fe80::1%eth0", 9090), "/long" * 20])
def test_a_folders_name_is_short_and_plain(address: Address) -> None:
    name = folder_name(address)
    assert len(name) < 50
    assert not set(name) & set("/\0:%")


def test_the_default_address_has_the_folder_of_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    environ = engine_environ(Settings(port=1), [("0.0.0.0", 2), ("::1", 3)])
    assert environ["SRB_RUNTIME_DIR"] == "/run/user/7/srb-2" == str(Settings(port=2).runtime_path)


def test_a_folder_that_is_set_stays() -> None:
    assert "SRB_RUNTIME_DIR" not in engine_environ(Settings(runtime_dir="/run/srb"), ["/run/srb.sock"])


def test_servers_that_share_a_port_do_not_share_a_folder() -> None:
    settings, address = Settings(reuse_port=True), ("127.0.0.1", 9090)
    one, other = (engine_environ(settings, [address]) for _ in range(2))
    assert one["SRB_RUNTIME_DIR"] != other["SRB_RUNTIME_DIR"]


def test_only_a_server_that_takes_over_keeps_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUNICORN_PID", raising=False)
    monkeypatch.setenv("SRB_SERVER_ID", "before")
    assert engine_environ(Settings(), [("", 1)])["SRB_SERVER_ID"] not in ("", "before")
    monkeypatch.setenv("GUNICORN_PID", "1")
    assert engine_environ(Settings(), [("", 1)])["SRB_SERVER_ID"] == "before"
