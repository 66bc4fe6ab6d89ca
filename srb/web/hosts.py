"""Names of hosts: which of them mean this machine, and which a foreign page could have made mean it."""

from __future__ import annotations

import re
from ipaddress import ip_address


def name_of(host: str) -> str | None:
    """Return the name or address in a Host header, in small letters and without its port; None for a malformed one."""
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+?)\.?(:\d*)?", host.strip().lower())
    return match and match[1]


def is_loopback(host: str) -> bool:
    """Whether `host` is reachable from this machine only: a name, an address (IPv6 also in brackets) or a socket's path."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith((".localhost", ".sock")):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether `host` is an IP address: no name of it can be pointed elsewhere."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
