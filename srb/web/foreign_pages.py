"""Pages of other origins on a server without keys: how their requests are told, and which of them are refused.

Any page that is open in a browser can send requests to this server. By the address they are the writer's, so the origin is
what tells them apart: browsers set `Origin` and `Sec-Fetch-Site`, and no page can change either. A foreign page may start
requests, and control those that the same origin has started from the same address. Nothing else that is everybody's.
"""

import hashlib
import re
from ipaddress import ip_address
from urllib.parse import urlsplit
from uuid import uuid4
from wsgiref.types import WSGIEnvironment

from flask import has_request_context, request

from srb.errors import Forbidden
from srb.wire.commands import PAGE

OWNER = "srb.owner"  # key of a WSGI environ: who owns the requests that it starts, set by Access
NO_PAGE = "This is for the server's own page and programs, and the request came from a page of another origin"
_PORTS = {"http": "80", "https": "443"}


def is_foreign(environ: WSGIEnvironment) -> bool:
    """Whether a page of another origin sends a request.

    Browsers set Sec-Fetch-Site only for HTTPS and this machine's own addresses. It is right also behind a proxy that
    passes another Host on.
    """
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = environ.get("HTTP_ORIGIN")
    return origin is not None and not is_own(origin, environ.get("HTTP_HOST", ""), environ["wsgi.url_scheme"])


def is_own(origin: str, host: str, scheme: str) -> bool:
    """Compare a page's origin with the Host. The scheme may differ: behind a proxy with TLS only the page knows it."""
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return False
    if parts.scheme not in _PORTS or f"{parts.scheme}://{parts.netloc}" != origin.lower():
        return False
    if scheme == "https" != parts.scheme:
        return False
    port = f":{_PORTS[parts.scheme]}"
    return parts.netloc.removesuffix(port) == host.lower().removesuffix(port)


def owner_of(environ: WSGIEnvironment) -> str:
    """Return the owner of a foreign page's requests: its origin at its address.

    Every page in a sandbox or of a file has the origin `null`, and images have none: each such request is its own owner.
    """
    origin = environ.get("HTTP_ORIGIN", "null")
    if origin == "null":
        origin = uuid4().hex
    return f"{PAGE}{hashlib.sha256(origin.encode('latin-1')).hexdigest()[:32]} {environ.get('REMOTE_ADDR', '')}"


def is_page() -> bool:
    """Whether a foreign page has sent the present request."""
    return has_request_context() and str(request.environ.get(OWNER, "")).startswith(PAGE)


def refuse_page(field: str = "") -> None:
    """Raise Forbidden if a foreign page has sent the present request, whose body has `field`."""
    if is_page():
        raise Forbidden(f"Field {field!r}: {NO_PAGE}", param=field) if field else Forbidden(NO_PAGE)


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
