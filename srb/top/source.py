"""A running server as the source of readings: its health, its numbers and the caller's requests, by its HTTP API."""

import contextlib
import http.client
import re
import socket
import ssl
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from srb.config.settings import Settings
from srb.host.listening import url_of

_SECONDS = 5.0  # for each answer; a server whose engine hangs says so after three
_GATEWAY = (502, 503, 504)  # what a proxy answers while the server is away
_MOST_BYTES = 16 * 2**20  # of an answer: slots with long prompts have megabytes, and a stranger's may have no end
_SAMPLE = re.compile(r"^srb_(\w+) (\S+)$", re.MULTILINE)  # a number without labels


class Away(Exception):
    """The server does not answer now, and may do so later; the message is one line."""


class Unusable(Exception):
    """The server's answers are of no use, and will not be; the message is one line."""


@dataclass(frozen=True, slots=True)
class ListedRequest:
    """A request of the caller that runs or rests; `age` in seconds."""

    id: str
    state: str
    age: float
    prompt_tokens: int
    branches: Mapping[str, int]  # how many are in each state
    written: int  # tokens of all branches

    @classmethod
    def of(cls, answer: Any) -> "ListedRequest":
        branches = answer["branches"]
        states = Counter(str(branch["state"]) for branch in branches)
        written = sum(int(branch["length"]) for branch in branches)
        age, prompt_tokens = float(answer["age"]), int(answer["prompt_tokens"])
        return cls(str(answer["id"]), str(answer["state"]), age, prompt_tokens, states, written)


@dataclass(frozen=True, slots=True)
class Reading:
    """The server at one time; `at` is of time.monotonic()."""

    at: float
    version: str
    state: str  # in words
    numbers: Mapping[str, float]  # of /metrics; none if the server has none
    requests: list[ListedRequest] | None  # None: the key may not list them, or no engine is ready


class Source:
    """A server by its URL, and a key if it asks for one; without a URL the server that the settings describe."""

    def __init__(self, settings: Settings, url: str = "", key: str = "") -> None:
        """Raise Unusable for a URL that is none of HTTP."""
        self.url = url.rstrip("/") or _url_of(settings)
        self._socket = settings.hosts[0] if not url and settings.hosts[0].endswith(".sock") else ""
        self._certificate = settings.ssl_cert_file if not url else ""
        self._key = key
        try:
            self._parts = urlsplit(self.url)
            is_usable = self._parts.scheme in ("http", "https") and bool(self._parts.hostname)
            self._port = self._parts.port  # raises ValueError
        except ValueError:
            is_usable = False
        if not is_usable:
            raise Unusable(f"{self.url}: should begin with http:// or https://, and name a host")

    def read(self) -> Reading:
        """Ask for everything once. Raise Away or Unusable."""
        try:
            with contextlib.closing(self._connection()) as connection:
                _, answer = self._get(connection, "/health", (200, 503))
                health = orjson.loads(answer)
                _, metrics = self._get(connection, "/metrics")
                status, listed = self._get(connection, "/v1/srb/completions")
            requests = (
                [ListedRequest.of(each) for each in orjson.loads(listed)["completions"]] if status == 200 else None
            )
            numbers = {name: float(value) for name, value in _SAMPLE.findall(metrics.decode("utf-8", "replace"))}
            state = health["error"]["message"] if "error" in health else health["status"]
            return Reading(time.monotonic(), str(health["version"]), str(state), numbers, requests)
        except ssl.SSLCertVerificationError as error:
            raise Unusable(f"{self.url}: {error.verify_message}") from None
        except (OSError, http.client.IncompleteRead) as error:
            raise Away(f"{self.url} does not answer: {getattr(error, 'strerror', None) or error}") from None
        except (http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            raise Unusable(f"{self.url} is no SRB server: {type(error).__name__}") from None

    def _get(self, connection: http.client.HTTPConnection, path: str, wanted: Sequence[int] = ()) -> tuple[int, bytes]:
        """Return the status and the body of an answer. Raise Away or Unusable for another status than the wanted ones."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        if self._socket:
            headers["Host"] = "localhost"
        connection.request("GET", self._parts.path + path, headers=headers)
        with connection.getresponse() as response:
            body = response.read(_MOST_BYTES)
            if response.read(1):
                raise Unusable(f"{self.url}{path} answers with more than {_MOST_BYTES >> 20} MiB")
        if response.status == 401:
            raise Unusable(f"{self.url} wants an API key that it knows (--api-key, --api-key-file)")
        is_json = response.headers.get_content_type() == "application/json"
        if response.status in _GATEWAY and not is_json:
            raise Away(f"{self.url} does not answer: its proxy says {response.status}")
        if wanted and (response.status not in wanted or not is_json):
            raise Unusable(f"{self.url} is no SRB server: GET {path} is answered {response.status}")
        return response.status, body

    def _connection(self) -> http.client.HTTPConnection:
        assert self._parts.hostname is not None
        if self._socket:
            return _UnixConnection(self._socket)
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(self._parts.hostname, self._port, timeout=_SECONDS)
        context = ssl.create_default_context(cafile=self._certificate or None)
        context.check_hostname = not self._certificate  # of our own certificate the name may be any
        return http.client.HTTPSConnection(self._parts.hostname, self._port, timeout=_SECONDS, context=context)


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self._path)


def _url_of(settings: Settings) -> str:
    """Return the URL of the server with these settings; of a Unix socket, one whose host is not looked up."""
    host = settings.hosts[0].strip("[]")
    if host.endswith(".sock"):
        return f"http://localhost{settings.api_prefix}"
    return url_of(host, settings.port, is_secure=bool(settings.ssl_cert_file)) + settings.api_prefix
