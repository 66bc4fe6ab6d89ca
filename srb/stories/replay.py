"""Requests of a story, as the page exports them, asked of a server again: whether each branch has the same text.

A line of the file is one request: its body, the seeds of its branches, and what each of them wrote. A branch that was added
to the request is added again, with the fields that it was asked for with; one that went on after its limit goes on.
"""

import http.client
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from srb.errors import InvalidRequest, SRBError

_SECONDS = 600.0  # of one answer: a long prompt on a slow machine takes minutes
_PAUSE = 0.02  # between two questions whether the branches have ended
_STEP = 64  # tokens by which a branch goes on, as often as its text is longer
_CUT = {
    "cancelled",
    "error",
    "lost",
}  # ends from outside: the text is a beginning of what the branch would have written


class ReplayFailed(SRBError):
    """The server does not answer, or refuses a request; the message is one line."""


@dataclass(slots=True)
class Difference:
    """A branch with another text than it had: the characters that both have, and the texts from there on."""

    round: str
    index: int
    at: int
    was: str
    now: str


@dataclass(slots=True)
class Replayed:
    """The result of a file: requests that were asked again, those that the file does not have, and the texts."""

    requests: int = 0
    unkept: int = 0
    texts: int = 0
    models: set[str] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)


class Server:
    """A server to ask, by its URL and a key."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url.rstrip("/")
        self._key = key
        parts = urlsplit(self.url)
        if parts.scheme != "http" or not parts.hostname:
            raise InvalidRequest(f"--url {url}: should begin with http://, and name a host")
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return an answer's object. Raise ReplayFailed for an error."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        try:
            self._connection.request(method, self._path + path, orjson.dumps(body) if body else None, headers)
            with self._connection.getresponse() as response:
                answer = orjson.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ReplayFailed(f"{self.url} does not answer: {error}") from error
        if response.status != 200:
            raise ReplayFailed(f"{self.url}: {answer.get('error', {}).get('message', response.status)}")
        return answer

    def close(self) -> None:
        self._connection.close()


def read_requests(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the requests of an export, in the order in which they were made. Raise InvalidRequest, which names the line."""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            found = orjson.loads(line)
            assert isinstance(found["branches"], list)
            assert found["request"] is None or isinstance(found["request"]["prompt"], str | dict)
        except (ValueError, KeyError, TypeError, AssertionError):
            raise InvalidRequest(
                f"line {number} is no request of a story; export them as “Rounds, to be asked again”"
            ) from None
        yield found


def replay(server: Server, requests: Iterator[dict[str, Any]]) -> Iterator[Replayed]:
    """Ask for each request again, and yield what is known after it."""
    found = Replayed()
    for asked in requests:
        found.models.add(asked["model"])
        if asked["request"] is None:
            found.unkept += 1
        else:
            found.requests += 1
            _Request(server, asked).compare(found)
        yield found


class _Request:
    """A request that is asked again, with its branches by the indices that they had."""

    def __init__(self, server: Server, asked: Mapping[str, Any]) -> None:
        self._server = server
        self._asked = asked
        body = {**asked["request"], "stream": False}
        answer = server.ask("POST", "/v1/srb/completions", body)
        self._path = f"/v1/srb/completions/{quote(answer['id'])}"
        self._rests = body.get("linger", 0) > 0
        self._branches: dict[int, dict[str, Any]] = {each["index"]: each for each in answer["completions"]}
        self._indices = {index: index for index in self._branches}  # here, by those that they had

    def compare(self, found: Replayed) -> None:
        for branch in sorted(self._asked["branches"], key=lambda each: each["index"]):
            index, was = branch["index"], branch["text"]
            if index not in self._indices:
                self._add(branch)
            now = self._text(index)
            is_cut = branch["end"] in _CUT
            while self._rests and len(now) < len(was) and self._go_on(index):
                now, is_cut = self._text(index), True  # it went on by other steps
            found.texts += 1
            if now == was or (is_cut and now.startswith(was)):
                continue
            pairs = enumerate(zip(was, now, strict=False))
            at = next((place for place, (one, other) in pairs if one != other), min(len(was), len(now)))
            found.differences.append(Difference(self._asked["round"], index, at, was[at:], now[at:]))
        if self._rests:
            self._server.ask("DELETE", self._path)

    def _text(self, index: int) -> str:
        branch = self._branches[self._indices[index]]
        return str(branch["text"]) + str(branch.get("stopping_word", ""))

    def _add(self, branch: Mapping[str, Any]) -> None:
        entry = {"seed": branch["seed"], **branch.get("asked", {})}
        origin = entry.pop("from", None)
        body: dict[str, Any] = {"branches": [entry]}
        if origin is not None:
            body["from"] = {**origin, "branch": self._indices[origin["branch"]]}
        answer = self._server.ask("POST", f"{self._path}/branches", body)
        self._indices[branch["index"]] = answer["indices"][0]
        self._wait()

    def _go_on(self, index: int) -> bool:
        """Let a branch go on that has ended by its limit; return whether it has."""
        own = self._indices[index]
        if self._branches[own]["reason"] != "limit" or self._branches[own].get("truncated"):
            return False
        before = self._branches[own]["length"]
        self._server.ask("PATCH", f"{self._path}/branches/{own}", {"max_tokens": _STEP})
        self._wait()
        return bool(self._branches[own]["length"] > before)

    def _wait(self) -> None:
        """Wait until all branches have ended."""
        while (said := self._server.ask("GET", self._path))["state"] not in ("resting", "ended"):
            time.sleep(_PAUSE)
        self._branches = {each["index"]: each for each in said["branches"]}
