"""An answer of a server in a form that can be compared: streams are folded, and metrics are their names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from bench.differential.cases import Case

TIMEOUT_SECONDS = 120.0  # of each wait for bytes
_JOINED = {"content", "text", "reasoning_content", "arguments"}  # texts that events share out
_ALIGNED = {"choices", "tool_calls"}  # lists whose elements continue those of the event before


@dataclass(frozen=True)
class Answer:
    """Status, Content-Type without its parameters, and the value: JSON, a stream's folded events, or a text."""

    status: int
    type: str
    value: Any


def ask(url: str, case: Case) -> Answer:
    """Send a case to the server at `url` and return its answer; raise requests.RequestException without one."""
    headers = {"Content-Type": case.type, "Connection": "close"}  # a refused body may end a connection that is kept
    response = requests.request(case.method, url + case.path, data=case.data, timeout=TIMEOUT_SECONDS, headers=headers)
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    content = response.content
    if kind == "text/html":  # a page may tell its own address
        content = content.replace(b":%d" % (urlsplit(url).port or 80), b":PORT")
    return Answer(response.status_code, kind, value(kind, content))


def value(kind: str, content: bytes) -> Any:
    """Return the content of an answer as JSON; text is returned as it is."""
    text = content.decode(errors="replace")
    if kind == "text/event-stream":
        return stream(text)
    if kind == "text/plain" and text.startswith("# "):
        return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    try:
        return json.loads(text)
    except ValueError:
        return text


def stream(text: str) -> dict[str, Any]:
    """Return the folded events of a stream, and how it ends; comments, which keep a connection awake, are left out."""
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    other = [line for line in text.splitlines() if line and not line.startswith(("data:", ":"))]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    return {"events": _with_timings_last(fold(events)), "done": lines[-1:] == ["[DONE]"], "other_lines": other}


def _with_timings_last(events: list[Any]) -> list[Any]:
    """Give the last branch the `timings`, which the one has that ended last: any of them may be that one."""
    branches = [event for event in events if isinstance(event, dict) and _branch(event) != float("inf")]
    having = [event for event in branches if "timings" in event]
    if len(having) == 1 and having[0] is not branches[-1]:
        branches[-1]["timings"] = having[0].pop("timings")
    return events


def fold(events: list[Any]) -> list[Any]:
    """Join successive events of the same shape and branch: a server may put several tokens into an event.

    `timings` do not count for the shape, since only some events have them.
    """
    folded: list[Any] = []
    for event in sorted(events, key=_branch):
        if folded and _shape(folded[-1]) == _shape(event):
            folded[-1] = _joined("", folded[-1], event)
        else:
            folded.append(event)
    return folded


def _branch(event: Any) -> float:
    """Return the branch of an event; an event of the whole request comes after those of its branches."""
    if not isinstance(event, dict):
        return float("inf")
    choices = event.get("choices")
    index = choices[0].get("index") if choices else event.get("index")
    return float("inf") if index is None else index


def _shape(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return tuple(sorted((name, _shape(inner, name)) for name, inner in value.items() if name != "timings"))
    if isinstance(value, list):
        return ("list", *(_shape(inner) for inner in value)) if key in _ALIGNED else ("list",)
    return ("index", value) if key == "index" else (kind_of(value),)


def _joined(key: str, before: Any, after: Any) -> Any:
    """Return one value for two successive ones of the same shape: texts and lists joined, else the later one."""
    if isinstance(before, dict):
        return {name: _joined(name, inner, after.get(name, inner)) for name, inner in before.items()} | {
            name: inner for name, inner in after.items() if name not in before
        }
    if isinstance(before, list):
        if key in _ALIGNED:
            return [_joined("", one, other) for one, other in zip(before, after, strict=True)]
        return before + after
    return before + after if key in _JOINED and isinstance(before, str) else after


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]
