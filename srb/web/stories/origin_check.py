"""The door of the story routes, which belong to the server's own page: checked before Flask, whatever CORS allows.

A foreign page can send requests to this server. It gets in nowhere: no answer has a CORS header, and a preflight neither; a
body must be JSON, which a page sends to another origin only after a preflight; `Origin` and `Sec-Fetch-Site` must be the
page's own; and the Host must be an address or a known name, so that no name of a foreign page can be pointed here.
"""

from collections.abc import Set
from wsgiref.types import WSGIEnvironment

from werkzeug.http import parse_options_header

from srb.errors import Forbidden, UnsupportedMedia
from srb.web.foreign_pages import is_address, is_loopback, is_own, name_of

ROOT = "/v1/srb/stories"
PASSED = "srb.stories.passed"  # key of a WSGI environ: the request has passed this door

HEADERS = [
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
]


def leads_to_stories(route: str) -> bool:
    """Whether a path, without prefix and trailing slash, is that of a story route."""
    return route == ROOT or route.startswith(f"{ROOT}/")


def check(environ: WSGIEnvironment, allowed_hosts: Set[str]) -> None:
    """Raise Forbidden or UnsupportedMedia for a request that is not the own page's, or a program's."""
    _check_host(environ, allowed_hosts)
    _check_origin(environ)
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD", "DELETE"):
        kind, _ = parse_options_header(environ.get("CONTENT_TYPE"))
        if kind.lower() != "application/json":
            raise UnsupportedMedia("Stories are sent with the header Content-Type: application/json")
    environ[PASSED] = True


def _check_host(environ: WSGIEnvironment, allowed_hosts: Set[str]) -> None:
    host = environ.get("HTTP_HOST", "localhost")
    name = name_of(host)
    known = name is not None and (is_address(name) or is_loopback(name) or name in allowed_hosts)
    if not known and "*" not in allowed_hosts:
        raise Forbidden(f"Stories are not shown under the host name {host}: see the setting allowed_hosts")


def _check_origin(environ: WSGIEnvironment) -> None:
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and not is_own(origin, environ.get("HTTP_HOST", ""), environ["wsgi.url_scheme"]):
        raise Forbidden("Stories belong to this server's own page, and this request came from another")
    if environ.get("HTTP_SEC_FETCH_SITE", "none") not in ("same-origin", "none"):
        raise Forbidden("Stories belong to this server's own page, and this request came from another")
