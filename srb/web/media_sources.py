"""Media that a chat names: data URLs, files below `media_path`, and pages of the hosts in `media_hosts`, as base64.

A host's name is resolved once, and the connection goes to the address that was checked: no name leads into a private
network. Redirects are not followed. The URLs of a chat are fetched side by side, and files are read by threads, so neither
a slow host nor a slow disk holds up the worker's other calls.
"""

import http.client
import ipaddress
import re
import socket
import ssl
import string
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit

import gevent
from gevent.lock import BoundedSemaphore
from gevent.queue import SimpleQueue
from gevent.threadpool import ThreadPool

from srb.config.settings import Settings
from srb.config.values import split_commas
from srb.errors import InvalidRequest, NotSupported

MAX_BYTES = 20 * 2**20  # of a file that is read or fetched; in base64 it fits into a body of 32 MiB
MAX_SECONDS = 10.0  # to fetch or read one: 20 MiB at 17 Mbit/s; the chat's client waits for it
MAX_SECONDS_OF_ALL = 30.0  # … and all of a chat, or slow hosts would keep it for MAX_FILES times as long
AT_ONCE = 6  # of a chat, as browsers ask one host
_DISK_THREADS = 4  # of a worker; a disk that hangs holds up no other thread's work
MAX_CHARACTERS = 64 * 2**20  # of base64, of all media of a chat, unless bodies may be larger; a frame takes so much
_MAX_SHOWN = 100  # characters of a URL in an error: one line; a data URL has millions
_DATA_URL = re.compile(r"data:[^,]*?;base64,", re.IGNORECASE)


def load_media(sources: Sequence[Mapping[str, str]], settings: Settings, field: str, max_characters: int) -> list[str]:
    """Return the base64 of each source, {"data": base64} or {"url"} with its "place" in the body, in their order.

    A URL is asked once, however often it comes, and the first that fails ends the others. Raise InvalidRequest or
    NotSupported, which name `field`; also for more than `max_characters` of base64 in all.
    """
    too_large = InvalidRequest(
        f"Field '{field}': has more than {max_characters} characters of base64 in pictures and sounds", param=field
    )
    urls = Counter(source["url"] for source in sources if "url" in source)
    places = {source["url"]: source["place"] for source in reversed(sources) if "url" in source}
    found = {url: url[begin.end() :] for url in urls if (begin := _DATA_URL.match(url))}
    left = max_characters - sum(len(source["data"]) for source in sources if "data" in source)
    left -= sum(len(data) * urls[url] for url, data in found.items())
    if left < 0:
        raise too_large
    if asked := [url for url in urls if url not in found]:
        turns, done = BoundedSemaphore(AT_ONCE), SimpleQueue()

        def ask(url: str) -> None:
            with turns:
                done.put((url, _outcome(url, settings, field, places[url])))

        asking = [gevent.spawn(ask, url) for url in asked]
        late = f"Field '{field}': its URLs did not all answer within {MAX_SECONDS_OF_ALL:g} seconds"
        try:
            with gevent.Timeout(MAX_SECONDS_OF_ALL, InvalidRequest(late, param=field)):
                for _ in asked:
                    url, outcome = done.get()
                    if isinstance(outcome, Exception):
                        raise outcome
                    found[url] = outcome
                    left -= len(outcome) * urls[url]
                    if left < 0:
                        raise too_large
        finally:
            gevent.killall(asking)
    return [source["data"] if "data" in source else found[source["url"]] for source in sources]


class _Refused(Exception):
    """The server's settings do not allow it."""


def _outcome(url: str, settings: Settings, field: str, place: str) -> str | Exception:
    """Return what a URL stands for, as base64, or the error."""
    shown = url if len(url) <= _MAX_SHOWN else url[:_MAX_SHOWN] + "…"
    try:
        return _base64(url, settings)
    except _Refused as error:
        return NotSupported(f"Field '{field}': {place}: {shown}: {error}", param=field)
    except ValueError as error:
        return InvalidRequest(f"Field '{field}': {place}: {shown}: {error}", param=field)
    except Exception as error:
        return error  # the caller raises it


def _base64(url: str, settings: Settings) -> str:
    """Return what a URL stands for, as base64. Raise ValueError or _Refused."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _encoded(_read(parts, settings))
    if parts.scheme in ("http", "https"):
        return _encoded(_fetched(parts, settings))
    raise ValueError("should be a data URL with base64, or an http, https or file URL")


def _encoded(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ValueError(f"the file has more than {MAX_BYTES} bytes")
    return b64encode(data).decode()


@cache
def _disk() -> ThreadPool:
    return ThreadPool(_DISK_THREADS)


def _read(parts: SplitResult, settings: Settings) -> bytes:
    if not settings.media_path:
        raise _Refused("this server reads no file URLs; --media-path names the folder from which it may")
    with gevent.Timeout(MAX_SECONDS, ValueError(f"the file was not read within {MAX_SECONDS:g} seconds")):
        data, error = _disk().apply(_attempt_to_read, (settings.media_path, unquote(parts.netloc + parts.path)))
    if error is not None:
        raise error
    assert isinstance(data, bytes)
    return data


def _attempt_to_read(media_path: str, name: str) -> tuple[bytes, None] | tuple[None, ValueError]:
    """Return a file's bytes or the error, which a thread of gevent's would log if it were raised there."""
    try:
        return _file(media_path, name), None
    except ValueError as error:
        return None, error


def _file(media_path: str, name: str) -> bytes:
    """Return the bytes of the file with this name below a folder. Raise ValueError."""
    folder = Path(media_path).resolve()
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
    try:
        host = host.encode("idna").decode()  # here, since the thread that asks for addresses would log the error
    except UnicodeError as error:
        raise ValueError(f"{host[:_MAX_SHOWN]!r} is no name of a host: {error}") from None
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
    """Whether an IP address belongs to the public internet.

    Python's own `is_global` differs from version to version, so the blocks that some versions take for public are here.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (_ipv4_in(ip) if ip in _NAT64 or ip in _COMPATIBLE else None)
        if inner is not None:
            return is_public(str(inner))
        if ip not in _UNICAST:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in block for block in _NOT_PUBLIC)


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # RFC 4291, 2.5.5.1
# All that is assigned to the public internet. Outside are the NAT64 of a site (64:ff9b:1::/48, RFC 8215), translated IPv4
# (::ffff:0:0:0/96) and segment routing (5f00::/16), which lead into private networks.
_UNICAST = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC = (
    ipaddress.IPv6Network("2001::/32"),  # Teredo: a tunnel to an IPv4 address
    ipaddress.IPv6Network("3fff::/20"),  # documentation, RFC 9637
    ipaddress.IPv4Network("192.0.0.0/24"),  # of protocols, RFC 6890
)


def _ipv4_in(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    """Return the IPv4 address that an IPv6 address ends with."""
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
