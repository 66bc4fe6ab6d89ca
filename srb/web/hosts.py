"""Names of hosts: which of them mean this machine, and which a foreign page could have made mean it."""

import re
from ipaddress import ip_address


def name_of(host: str) -> str | None:
    """Return the name or address in a Host header, in small letters and without its port; None for a malformed one."""
    match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]+?)\.?(:\d*)?", host.strip().lower())
    return match and match[1]


def is_local_bind(host: str) -> bool:
    """Whether what listens on `host`, a name, an address or the path of a socket, is reached from this machine only."""
    return host.endswith(".sock") or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether a client's name or address (IPv6 also in brackets) of this server means the client's own machine."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
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
