"""Media that a chat names: data URLs, files below `media_path`, and pages of the hosts in `media_hosts`, as base64.

A host's name is resolved once, and the connection goes to the address that was checked: no name leads into a private
network. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import string
from base64 import b64encode
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

import gevent

from srb.errors import InvalidRequest, NotSupported
from srb.settings import Settings, split_commas

MAX_BYTES = 20 * 2**20  # of a file that is read or fetched
MAX_SECONDS = 10.0  # to fetch one
MAX_CHARACTERS = 64 * 2**20  # of base64, of all media of a chat, unless bodies may be larger
_DATA_URL = re.compile(r"data:[^,]*?;base64,", re.IGNORECASE)


def media_data(url: str, settings: Settings, field: str) -> str:
    """Return what a URL stands for, as base64. Raise InvalidRequest or NotSupported, which name `field`."""
    if begin := _DATA_URL.match(url):
        return url[begin.end() :]
    try:
        parts = urlsplit(url)
        if parts.scheme == "file":
            return _encoded(_file(parts, settings))
        if parts.scheme in ("http", "https"):
            return _encoded(_fetched(parts, settings))
        raise ValueError("should be a data URL with base64, or an http, https or file URL")
    except _Refused as error:
        raise NotSupported(f"Field '{field}': {error}", param=field) from None
    except ValueError as error:
        raise InvalidRequest(f"Field '{field}': {error}", param=field) from None


class _Refused(Exception):
    """The server's settings do not allow it."""


def _encoded(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file has more than {MAX_BYTES} bytes")
    return b64encode(data).decode()


def _file(parts: SplitResult, settings: Settings) -> bytes:
    if not settings.media_path:
        raise _Refused("this server reads no file URLs; --media-path names the folder from which it may")
    folder = Path(settings.media_path).expanduser().resolve()
    name = unquote(parts.netloc + parts.path)
    path = (folder / (name if Path(name).is_relative_to(folder) else name.lstrip("/"))).resolve()
    if not path.is_relative_to(folder):
        raise ValueError("the file is not below media_path")
    try:
        if path.exists() and not path.is_file():
            raise ValueError("the URL names no regular file")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None


def _fetched(parts: SplitResult, settings: Settings) -> bytes:
    allowed = split_commas(settings.media_hosts.lower())
    host = (parts.hostname or "").lower()
    if not allowed:
        raise _Refused("this server fetches no URLs; send the data, or name the hosts it may ask in media_hosts")
    if "*" not in allowed and host not in allowed:
        raise _Refused(f"this server fetches nothing from {host!r} (media_hosts)")
    late = ValueError(f"the URL did not answer within {MAX_SECONDS:g} seconds")
    try:
        with gevent.Timeout(MAX_SECONDS, late):
            return _get(parts, host)
    except (OSError, http.client.HTTPException) as error:
        raise ValueError(f"the URL cannot be fetched: {error}") from None


def _get(parts: SplitResult, host: str) -> bytes:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    address = str(found[0][4][0])
    if not all(is_public(str(entry[4][0])) for entry in found):
        raise ValueError(f"the host {host!r} has an address in a private network")
    connection = http.client.HTTPConnection(host, port, timeout=MAX_SECONDS)
    connection.sock = socket.create_connection((address, port), timeout=MAX_SECONDS)
    try:
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(connection.sock, server_hostname=host)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        target = quote(target, safe=string.punctuation)  # those who write a URL leave letters of their language in it
        connection.request("GET", target, headers={"Accept": "image/*, audio/*", "User-Agent": "srb"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"the URL answers {answer.status} {answer.reason}, and not 200")
        return answer.read(MAX_BYTES + 1)
    finally:
        connection.close()


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (_ipv4_in(ip) if ip in _NAT64 or ip in _COMPATIBLE else None)
        if inner is not None:
            return is_public(str(inner))
        if ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # RFC 4291, 2.5.5.1


def _ipv4_in(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    """Return the IPv4 address that an IPv6 address ends with."""
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
