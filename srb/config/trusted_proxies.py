"""Trusted proxies: whose X-Forwarded-For is believed, and the client's address by it."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"  # in the setting: whoever connects to one of the server's Unix sockets

_WITH_PORT = re.compile(r"\[([^\]]*)\](?::\d+)?|([\d.]+):\d+")  # as some proxies write addresses


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The networks of trusted proxies, and whether those that connect to a Unix socket are trusted."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    has_unix: bool = False

    def client(self, peer: str, forwarded: str) -> str:
        """Return the client's address: the rightmost of `forwarded` that is no trusted proxy's, if the peer is one.

        `forwarded` is the X-Forwarded-For header, in which each proxy appends the address of its own peer. Of an entry that
        is no address, the client is the proxy that wrote it. `peer` is empty for a Unix socket.
        """
        found = peer
        for entry in reversed(forwarded.split(",")):
            if not self._trusts(found) or (address := _address(entry)) is None:
                break
            found = str(address)
        return found

    def may_be_many(self, peer: str) -> bool:
        """Whether a peer may pass on what many clients ask: a Unix socket, a trusted proxy, or a program on this machine."""
        address = _address(peer)
        return address is None or address.is_loopback or self._trusts(peer)

    def _trusts(self, peer: str) -> bool:
        address = _address(peer)
        if address is None:
            return self.has_unix and not peer
        return any(address in network for network in self.networks)


def proxies_of(text: str) -> TrustedProxies:
    """Return the proxies of a setting such as `127.0.0.1,10.0.0.0/8,unix`. Raise ValueError."""
    parts = [part for each in text.split(",") if (part := each.strip())]
    try:
        networks = tuple(ip_network(part) for part in parts if part != UNIX)
    except ValueError as error:
        raise ValueError(
            f"should be addresses and networks such as 127.0.0.1,10.0.0.0/8, or unix for the Unix sockets: {error}"
        ) from None
    return TrustedProxies(networks, UNIX in parts)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address, also one with a port; None for anything else. One IPv4 address has one form, and no zone."""
    text = text.strip()
    if found := _WITH_PORT.fullmatch(text):
        text = found[1] or found[2]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
