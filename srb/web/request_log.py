"""One log line per request: method, path, client, outcome, tokens and duration; prompts only with log_prompts."""

import logging
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gevent

from srb import logs
from srb.web.calls.mailbox import Mailbox
from srb.web.limits import PERSON
from srb.wire.commands import Generate
from srb.wire.events import Done, Failed, Rejected

log = logging.getLogger("srb.web")

BEGAN = "srb.began"  # key of a WSGI environ: time.monotonic()
_HAS_LINE = "srb.has_line"  # key of a WSGI environ: the id of a call that has a CallLine, logged at its end
QUIET = "srb.quiet"  # key of a WSGI environ: the call is one of very many, so its success is logged at debug level
REFUSAL_SECONDS = 1.0  # between two log lines about requests without a key
_MAX_PATH = 200  # characters of a line; the longest route has 80 with an id, and scanners send thousands
MODEL = "srb.model"  # key of a WSGI environ: the model that the request uses, where there are several


def log_response(environ: MutableMapping[str, Any], status: str) -> str:
    """Log one line per response, whose `status` is WSGI's ("200 OK"); return its id, which the line has.

    Successful GETs, and saves of stories, are logged only at debug level, and requests without a key in one line a second.
    Calls that generate, or read the events of a running request, are left out: they are logged when they end (see CallLine).
    """
    if _HAS_LINE in environ:
        return str(environ[_HAS_LINE])
    request_id = uuid4().hex
    asked, code = _request_fields(environ), int(status[:3])
    ms = 1000 * (time.monotonic() - environ[BEGAN])
    only_reads = code < 400 and (asked["method"] in ("GET", "HEAD", "OPTIONS") or QUIET in environ)
    fields = asked | {"id": request_id, "status": code, "ms": round(ms, 1)}
    if code == 401 and not _refusals.may_log():
        return request_id
    text = "%(method)s %(path)s %(client)s %(id)s: %(status)d, %(ms).0f ms"
    log.log(logging.DEBUG if only_reads else logging.INFO, text, fields, extra=logs.with_fields(fields))
    return request_id


class _Refusals:
    """The requests without a key: the first is logged by itself, those of each second after it as their number."""

    def __init__(self) -> None:
        self._more: int | None = None  # of this second; None: the last one had none

    def may_log(self) -> bool:
        """Count a request; return whether it has a line of its own."""
        if self._more is not None:
            self._more += 1
            return False
        self._begin()
        return True

    def _begin(self) -> None:
        self._more = 0
        gevent.spawn_later(REFUSAL_SECONDS, self._end)

    def _end(self) -> None:
        more, self._more = self._more, None
        if more:
            fields = {"status": 401, "requests": more}
            log.info(
                "%(requests)d more requests without a valid key: %(status)d", fields, extra=logs.with_fields(fields)
            )
            self._begin()


_refusals = _Refusals()  # of this worker


class CallLine:
    """The log line of one call that generates."""

    def __init__(self, environ: MutableMapping[str, Any], commands: Sequence[Generate], *, prompts: bool) -> None:
        """Note the request's fields; with `prompts` the line contains the prompts."""
        environ[_HAS_LINE] = commands[0].request_id
        self._asked = _request_fields(environ)
        self._commands = commands
        self._prompts = prompts
        self._began = environ.get(BEGAN, time.monotonic())

    def write(self, mailbox: Mailbox) -> None:
        """Log the line; `mailbox` has the events that ended the call, and the counts until then."""
        work = Work.of(mailbox)
        fields = self._asked | {
            "id": self._commands[0].request_id,
            "outcome": _outcome(mailbox),
            "branches": sum(len(command.branches) for command in self._commands),
            "prompt_tokens": work.prompt,
            "cached_tokens": work.cached,
            "restored_tokens": work.restored,
            "computed_tokens": work.computed,
            "unfinished_tokens": work.unfinished,
            "completion_tokens": work.new,
            "tokens_per_second": round(work.new / (work.seconds or 1), 1),
            "ms": round(1000 * (time.monotonic() - self._began), 1),
        }
        notes = ", unfinished %(unfinished_tokens)d" if work.unfinished else ""
        # A healed end, for one: the sum would look miscounted.
        if fields["branches"] > 1 and work.computed > work.prompt - work.cached:
            notes += ", its end once per branch"
        text = (
            "%(method)s %(path)s %(client)s %(id)s: %(outcome)s, %(branches)d branches, prompt %(prompt_tokens)d "
            f"(cached %(cached_tokens)d, restored %(restored_tokens)d, computed %(computed_tokens)d{notes}), "
            "new %(completion_tokens)d tokens, %(tokens_per_second).0f/s, %(ms).0f ms"
        )
        if "model" in fields:
            text += ", model %(model)s"
        if self._prompts:
            fields["prompts"] = [list(command.prompt) for command in self._commands]
            text += ", prompts %(prompts)s"
        log.info(text, fields, extra=logs.with_fields(fields))


class ReaderLine:
    """The log line of one call that reads the events of a running request."""

    def __init__(self, environ: MutableMapping[str, Any], target: str) -> None:
        environ[_HAS_LINE] = target
        self._asked = _request_fields(environ)
        self._target = target
        self._began = environ.get(BEGAN, time.monotonic())

    def write(self, mailbox: Mailbox) -> None:
        """Log the line; `mailbox` has the events that were read, and the snapshot before them."""
        fields = self._asked | {
            "id": self._target,
            "outcome": _outcome(mailbox),
            "branches": len(mailbox.snapshot.get("branches", ())),
            "read_tokens": mailbox.new_tokens[self._target],
            "ms": round(1000 * (time.monotonic() - self._began), 1),
        }
        text = (
            "%(method)s %(path)s %(client)s %(id)s: %(outcome)s, %(branches)d branches, read %(read_tokens)d tokens, "
            "%(ms).0f ms"
        )
        log.info(text, fields, extra=logs.with_fields(fields))


def _outcome(mailbox: Mailbox) -> str:
    """Return how a call ended: done, refused, or the code of the error."""
    done = any(isinstance(event, Done) for event in mailbox.ended)
    return failure(mailbox) or ("done" if done else "refused")


def failure(mailbox: Mailbox) -> str:
    """Return the code of the error that ended a call; "" without one."""
    return next((event.code for event in mailbox.ended if isinstance(event, Rejected | Failed)), "")


@dataclass(slots=True)
class Work:
    """The token counts of a call's requests, from the events that arrived; `seconds` is the time of the new tokens.

    For a request without a Done, `new` counts the received tokens, `computed` leaves out what branches append or heal, and
    a prompt without a PromptDone is `unfinished`: the engine has computed a part of it, or nothing.
    """

    prompt: int = 0
    cached: int = 0
    restored: int = 0
    computed: int = 0
    unfinished: int = 0
    new: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, mailbox: Mailbox) -> "Work":
        work = cls()
        ends = {event.request_id: event for event in mailbox.ended if isinstance(event, Done)}
        for request_id, prompt_tokens in mailbox.prompt_tokens.items():
            prompt, since = mailbox.prompts_done.get(request_id, (None, 0.0))
            done = ends.get(request_id)
            work.prompt += (
                done.prompt_tokens if done else prompt_tokens
            )  # what branches read behind it belongs to it, too
            if done:
                work.new += done.completion_tokens
                work.seconds += done.predicted_ms / 1000
            else:
                work.new += mailbox.new_tokens[request_id]
                work.seconds += time.monotonic() - since if prompt else 0.0
            if told := done or prompt:
                work.cached += told.cached_tokens
                work.restored += told.restored_tokens
                work.computed += told.computed_tokens
            else:
                work.unfinished += prompt_tokens
        return work


def _request_fields(environ: Mapping[str, Any]) -> dict[str, Any]:
    """Return method, path and client of a request. The query is left out, since clients put keys there."""
    path = str(environ.get("RAW_URI") or environ.get("PATH_INFO", "")).partition("?")[0]
    address = environ.get("REMOTE_ADDR") or "local"
    return {
        "method": environ.get("REQUEST_METHOD", ""),
        "path": path[:_MAX_PATH],
        "client": f"{person}@{address}" if (person := environ.get(PERSON)) else address,
        **({"model": environ[MODEL]} if MODEL in environ else {}),
    }
