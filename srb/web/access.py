"""Access control: API keys, host names, CORS, rate limits and the path prefix, checked before Flask.

The checks use the path that Flask then routes by, so no spelling of a path, no method and no header bypasses them.
"""

import hmac
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug import Response
from werkzeug.exceptions import HTTPException
from werkzeug.security import safe_join
from werkzeug.utils import redirect, send_file

from srb.config.api_keys import ApiKey
from srb.config.settings import Settings
from srb.config.trusted_proxies import proxies_of
from srb.config.values import split_commas
from srb.errors import ConfigError, Forbidden, NotFound, SRBError, Unauthorized
from srb.web.foreign_pages import NO_PAGE, OWNER, is_foreign, is_local_bind, is_loopback, name_of, owner_of
from srb.web.limits import CLIENT, NO_KEY, PERSON, SENT_KEY, RateLimit, client_of_key
from srb.web.loop.yielding import RoundRobin
from srb.web.replies import ErrorReplies
from srb.web.stories import origin_check

PUBLIC = {"/", "/completion.js", "/health", "/v1/health", "/livez"}  # GET needs no key; nor for the user's own files
FOR_METRICS = ("/metrics", "/v1/srb/usage")  # what keys named metrics may read besides
PAGE = "/page/"  # nor for the page's


class Access:
    """Checks requests before an application: passes a request on, or answers it.

    Every answer carries the CORS headers, except those of the story routes, which have a door of their own. The prefix and
    repeated slashes are removed from the path: clients join URLs carelessly, and few follow a redirect.
    """

    round_robin: RoundRobin | None = None  # in which calls begin, in a worker

    def __init__(self, settings: Settings, error_reply: ErrorReplies, folder: Path | None = None) -> None:
        """Read the keys; raise ConfigError if a file is unreadable. Workers with the same `folder` share the rate limit."""
        self._error_reply = error_reply
        self._keys = [(each.key.encode(), each, client_of_key(each)) for each in settings.load_api_keys()]
        self._proxies = proxies_of(settings.trusted_proxies)
        self._prefix = settings.api_prefix
        self._files = StaticFiles(settings.static_path) if settings.static_path else None
        self._origins = split_commas(settings.cors_origins)
        self._rate_limit = RateLimit(settings.rate_limit, folder) if settings.rate_limit else None
        self._hosts = set(split_commas(settings.allowed_hosts.lower()))
        local = not self._keys and all(map(is_local_bind, settings.hosts))
        self._checks_host = "*" not in self._hosts and (local or bool(self._hosts))

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse, application: WSGIApplication
    ) -> Iterable[bytes]:
        peer, forwarded = environ.get("REMOTE_ADDR", ""), environ.get("HTTP_X_FORWARDED_FOR", "")
        environ["REMOTE_ADDR"] = self._proxies.client(peer, forwarded)  # for limits and logs
        path = self._path(environ)
        of_stories = path is not None and origin_check.leads_to_stories(_route(path))
        more = origin_check.HEADERS if of_stories else self._cors_headers(environ)
        start = _with_headers(start_response, more)
        method = environ["REQUEST_METHOD"]
        if method == "OPTIONS":
            return Response()(environ, start)
        reading = method in ("GET", "HEAD")
        file = self._files.find(path) if self._files and reading and path is not None else None
        public = reading and (file is not None or (path is not None and _is_public(_route(path))))
        key, client = self._key(environ)
        if self.round_robin is not None:
            self.round_robin.wait(client)
        if self._keys and not public and key is None:
            return self._refuse(Unauthorized("Invalid API Key"), path, environ, start)
        if key and key.is_for_metrics and not public and not (reading and path and _route(path) in FOR_METRICS):
            return self._refuse(
                Forbidden("This key may only read /metrics, /health and /v1/srb/usage"), path, environ, start
            )
        if self._checks_host and not self._is_own_host(environ.get("HTTP_HOST", "localhost")):
            asked = environ["HTTP_HOST"]
            return self._refuse(
                Forbidden(f"Host {asked} is not allowed: see the setting allowed_hosts"), path, environ, start
            )
        foreign = not self._keys and is_foreign(environ) and not self._is_listed(environ.get("HTTP_ORIGIN"))
        environ[CLIENT], environ[OWNER] = client, owner_of(environ) if foreign else client
        environ[PERSON] = key.name if key else ""
        environ[SENT_KEY] = key or NO_KEY
        try:
            if foreign and not reading and "*" not in self._origins:
                raise Forbidden(f"{NO_PAGE}: see the setting cors_origins")
            if of_stories:
                origin_check.check(environ, self._hosts)
            elif self._rate_limit and method in ("POST", "PATCH"):
                self._rate_limit.take(client)
        except SRBError as error:
            return self._refuse(error, path, environ, start)
        if path is None:
            return self._refuse(NotFound("File Not Found"), path, environ, start)
        if reading and self._lacks_slash(environ):
            return redirect(self._prefix.rpartition("/")[2] + "/", 307)(environ, start)
        if self._files and file is not None:
            return self._files.send(file, environ)(environ, start)
        environ["PATH_INFO"] = _route(path)
        return application(environ, start)

    def _refuse(
        self, error: SRBError, path: str | None, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        reply = self._error_reply(error, path or "")
        if isinstance(error, Unauthorized):
            reply.headers["WWW-Authenticate"] = "Bearer"
        return reply(environ, start_response)

    def _path(self, environ: WSGIEnvironment) -> str | None:
        """Return the path below the prefix, with its trailing slash if it has one; None for a path outside the prefix."""
        path = _without_repeats(environ)
        rest = path.removeprefix(self._prefix)
        if self._prefix and (rest == path or (rest and rest[0] != "/")):
            return None
        return rest or "/"

    def _lacks_slash(self, environ: WSGIEnvironment) -> bool:
        """Whether the path is the prefix alone, where the page's relative links would lead out of the prefix."""
        return bool(self._prefix) and _without_repeats(environ) == self._prefix

    def _key(self, environ: WSGIEnvironment) -> tuple[ApiKey | None, str]:
        """Return the key that was sent, or None, and the client that has it, or that has the address.

        The request is compared with every key, in constant time, so the duration reveals nothing about the keys.
        """
        scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        sent = [token.strip()] if scheme.lower() == "bearer" else []
        sent.append(environ.get("HTTP_X_API_KEY", "").strip())
        texts = [text.encode("latin-1") for text in sent]
        matches = [max([hmac.compare_digest(text, key) for text in texts]) for key, _, _ in self._keys]
        if not any(matches):
            return None, environ.get("REMOTE_ADDR", "")
        return self._keys[matches.index(True)][1:]

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host header names this server. Another name may be a page's that was rebound to our address (DNS)."""
        name = name_of(host)
        return name is not None and (name in self._hosts or is_loopback(name))

    # Cross-origin requests ------------------------------------------------------------------------------------------

    def _cors_headers(self, environ: WSGIEnvironment) -> list[tuple[str, str]]:
        """Return the CORS headers; pages opened from a file have the origin `null`."""
        origin = environ.get("HTTP_ORIGIN")
        headers = [("Vary", "Origin")] if origin or "*" not in self._origins else []
        if not self._allows(origin):
            return headers
        headers.append(("Access-Control-Allow-Origin", origin or "*"))
        if origin:
            headers.append(("Access-Control-Allow-Credentials", "true"))
        if environ["REQUEST_METHOD"] == "OPTIONS":
            asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "*")
            headers.append(("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE, OPTIONS"))
            headers.append(("Access-Control-Allow-Headers", asked))
            if "HTTP_ACCESS_CONTROL_REQUEST_PRIVATE_NETWORK" in environ:
                headers.append(("Access-Control-Allow-Private-Network", "true"))
        return headers

    def _allows(self, origin: str | None) -> bool:
        return "*" in self._origins or self._is_listed(origin)

    def _is_listed(self, origin: str | None) -> bool:
        """Whether the settings name an origin, so that its pages are the owner's."""
        if origin is None:
            return False
        return origin in self._origins or ("localhost" in self._origins and _is_local_origin(origin))


def _without_repeats(environ: WSGIEnvironment) -> str:
    """Return the path with single slashes."""
    return re.sub("/{2,}", "/", "/" + environ.get("PATH_INFO", ""))


def _is_public(route: str) -> bool:
    return route in PUBLIC or route.startswith(PAGE)


def _route(path: str) -> str:
    """Return the path without its trailing slash, as routes have it."""
    return path.rstrip("/") or "/"


def _with_headers(start_response: StartResponse, more: list[tuple[str, str]]) -> StartResponse:
    """Add headers to an answer, also to an error."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Callable[[bytes], object]:
        return start_response(status, headers + more, exc_info)  # type: ignore[arg-type]

    return start


def _is_local_origin(origin: str) -> bool:
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


class StaticFiles:
    """Files below `folder`; symbolic links that lead out of it are not served."""

    def __init__(self, folder: str) -> None:
        """Raise ConfigError if `folder` is not a folder."""
        self._folder = Path(folder).resolve()
        if not self._folder.is_dir():
            raise ConfigError(f"static_path: {folder} is not a folder")

    def find(self, path: str) -> Path | None:
        """Return the file for a path as WSGI encodes it, or None; a path that ends with a slash means its index.html."""
        try:
            name = path.encode("latin-1").decode()
        except UnicodeDecodeError:
            return None
        if name.endswith("/"):
            name += "index.html"
        joined = None if "\0" in name else safe_join(str(self._folder), name.lstrip("/"))
        if joined is None:
            return None
        try:
            file = Path(joined).resolve()
            return file if file.is_relative_to(self._folder) and file.is_file() else None
        except (OSError, RuntimeError):  # a name too long; a loop of links, another error in Python 3.13 than in 3.11
            return None

    def send(self, file: Path, environ: WSGIEnvironment) -> Response:
        """Return the response with a file that `find` returned; supports ranges and conditional requests."""
        try:
            return send_file(file, environ, conditional=True)
        except HTTPException as error:  # a range outside the file
            return Response(status=error.code)
