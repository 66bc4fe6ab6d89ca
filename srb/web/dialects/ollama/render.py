"""Completions and chats in Ollama's form: a JSON object on each line of a stream, or one object.

The last line of a stream has the counts and durations. With several branches each line has the `index` of its branch, a
branch ends with a line that is `done`, and the last line, without an index, is the end of all.
"""

import time
from collections.abc import Sequence
from typing import Any, Protocol, cast

import orjson

from srb.errors import SRBError
from srb.web.answers import JSONObject
from srb.web.calls.calls import Call
from srb.web.calls.outcome import BranchOutcome, Outcome, timings
from srb.web.calls.renderer import FINISH_REASONS, Renderer
from srb.web.chat.reply_parser import Content, Piece, Reasoning, ReplyParser, parse_reply
from srb.web.chat.reply_parser import ToolCall as ParsedCall
from srb.web.dialects.ollama.body import Asked
from srb.web.dialects.ollama.names import timestamp
from srb.wire.events import BranchAdded, BranchEnded, Delta, Done, TokenProbs

# Places of the time and the text in a line that is encoded once; no name of a model has such characters.
_TIME, _TEXT = "\0time", "\0text"
_TIME_BYTES, _TEXT_BYTES = orjson.dumps(_TIME)[1:-1], orjson.dumps(_TEXT)


class Form(Protocol):
    """Where an answer has text, thoughts and calls of tools; `first` is the number of calls before these."""

    def __call__(
        self, content: str = "", thinking: str = "", calls: Sequence[ParsedCall] = (), first: int = 0
    ) -> JSONObject: ...


def generate_form(
    content: str = "", thinking: str = "", calls: Sequence[ParsedCall] = (), first: int = 0
) -> JSONObject:
    return {"response": content, "thinking": thinking} if thinking else {"response": content}


def chat_form(content: str = "", thinking: str = "", calls: Sequence[ParsedCall] = (), first: int = 0) -> JSONObject:
    message: JSONObject = {"role": "assistant", "content": content}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = [_call(first + place, call) for place, call in enumerate(calls)]
    return {"message": message}


def _call(index: int, call: ParsedCall) -> JSONObject:
    """Return a call with its arguments as an object; those that a model wrote in another form are its `value`."""
    try:
        arguments: Any = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        arguments = call.arguments
    if not isinstance(arguments, dict):
        arguments = {"value": arguments}
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


class Answers:
    """The answer to one call: its model's name, its form, and its clock."""

    def __init__(self, name: str, form: Form, asked: Asked, load_ns: int = 0) -> None:
        """`load_ns`: how long the call has waited for its model."""
        self.form = form
        self.asked = asked
        self._name = name
        self._load_ns = load_ns
        self._began = time.monotonic_ns() - load_ns

    def line(self, said: JSONObject, done: bool = False) -> JSONObject:
        return cast(JSONObject, {"model": self._name, "created_at": timestamp(), **said, "done": done})

    def end(self, event: BranchEnded, tokens: list[int]) -> JSONObject:
        """Return the end of a branch with these tokens."""
        end: JSONObject = {"done_reason": FINISH_REASONS[event.reason]}
        if self.asked.context is not None:
            end["context"] = [*self.asked.context, *tokens]
        return end

    def metrics(self, done: list[Done]) -> JSONObject:
        times = timings(done)
        return {
            "total_duration": time.monotonic_ns() - self._began,
            "load_duration": self._load_ns,
            "prompt_eval_count": sum(event.prompt_tokens for event in done),
            "prompt_eval_duration": round(times["prompt_ms"] * 1e6),
            "eval_count": times["predicted_n"],
            "eval_duration": round(times["predicted_ms"] * 1e6),
        }


class OllamaRenderer(Renderer):
    """The lines of a stream. A branch's text passes through its parser."""

    event_end = b"\n"

    def __init__(self, call: Call, answers: Answers) -> None:
        super().__init__(call)
        self._answers = answers
        self._branches = [_Branch(answers.asked.parser()) for _ in self._specs]
        self._around = self._plain_lines()
        self._last: BranchEnded | None = None
        # Some clients take the data of one read for one line. With probabilities each token has its line, at once.
        self.writes_one_by_one = len(self._specs) == 1 and self._specs[0].sampling.n_probs < 0

    def delta(self, event: Delta) -> bytes:
        branch = self._branches[event.index]
        if self._answers.asked.context is not None:
            branch.tokens += event.tokens
        branch.probs += event.probs or ()
        if not branch.probs and branch.parser.is_plain:
            head, middle, tail = self._around[event.index]
            if not event.text:
                return b""
            return head + timestamp().encode() + middle + orjson.dumps(event.text) + tail
        return self._pieces(event.index, branch.parser.feed(event.text))

    def branch_added(self, event: BranchAdded) -> bytes:
        super().branch_added(event)
        if event.resumed:
            return b""
        self._branches.append(_Branch(self._answers.asked.parser()))
        self._around = self._plain_lines()
        return self.delta(event.begun)

    def _plain_lines(self) -> list[tuple[bytes, bytes, bytes]]:
        return [self._plain_line(index) for index in range(len(self._specs))]

    def _plain_line(self, index: int) -> tuple[bytes, bytes, bytes]:
        """Return the bytes of a line of plain text before its time, between time and text, and after the text."""
        line = self._answers.line(self._answers.form(content=_TEXT))
        line["created_at"] = _TIME
        if len(self._specs) > 1:
            line["index"] = index
        head, _, rest = _encoded(line).partition(_TIME_BYTES)
        middle, _, tail = rest.partition(_TEXT_BYTES)
        return head, middle, tail

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        self._last = event
        lines = self._pieces(event.index, self._branches[event.index].parser.end())
        if len(self._branches) == 1:
            return lines
        end = self._answers.end(event, self._branches[event.index].tokens)
        line: JSONObject = {**self._answers.line(self._answers.form(), done=True), **end}
        line |= {"index": event.index, "eval_count": event.length, "seed": self._specs[event.index].seed}
        if error is not None:
            line["failure"] = error.message
        return lines + _encoded(line)

    def failed(self, error: SRBError) -> bytes:
        return _encoded(ollama_error(error))

    def _end(self, done: list[Done]) -> bytes:
        line: JSONObject = {**self._answers.line(self._answers.form(), done=True), **self._answers.metrics(done)}
        if len(self._branches) == 1 and self._last is not None:
            line |= self._answers.end(self._last, self._branches[0].tokens)
            self._branches[0].move_probs_to(line)
        else:
            line["done_reason"] = "stop"
        return _encoded(line)

    def _pieces(self, index: int, pieces: list[Piece]) -> bytes:
        branch = self._branches[index]
        lines = b""
        for piece in pieces:
            line = self._answers.line(branch.said(self._answers.form, piece))
            if len(self._branches) > 1:
                line["index"] = index
            branch.move_probs_to(line)
            lines += _encoded(line)
        return lines


class _Branch:
    """The state of one branch in a stream."""

    def __init__(self, parser: ReplyParser) -> None:
        self.parser = parser
        self.tokens: list[int] = []
        self.probs: list[TokenProbs] = []
        self._calls = 0

    def said(self, form: Form, piece: Piece) -> JSONObject:
        if isinstance(piece, Content):
            return form(content=piece.text)
        if isinstance(piece, Reasoning):
            return form(thinking=piece.text)
        assert isinstance(piece, ParsedCall)  # calls come whole
        self._calls += 1
        return form(calls=[piece], first=self._calls - 1)

    def move_probs_to(self, line: JSONObject) -> None:
        """Move the log-probabilities of all tokens since the last line into a new one."""
        if self.probs:
            line["logprobs"], self.probs = self.probs, []


def _encoded(line: JSONObject) -> bytes:
    return orjson.dumps(line) + b"\n"


def whole(given: Answers, outcome: Outcome) -> JSONObject:
    """Return the answer of a call that was not streamed; the first branch stands where clients look for the only one."""
    first, *others = (_whole_branch(given, index, branch) for index, branch in enumerate(outcome.branches))
    said = {name: value for name, value in first.items() if name in ("response", "thinking", "message")}
    line: JSONObject = {**given.line(said, done=True), **given.metrics(outcome.done)}
    if "logprobs" in first:
        line["logprobs"] = first["logprobs"]
    if "context" in first:
        line["context"] = first["context"]
    line["done_reason"] = first["done_reason"]
    if others:
        line["branches"] = [first, *others]
    return line


def _whole_branch(given: Answers, index: int, branch: BranchOutcome) -> JSONObject:
    assert branch.ended is not None  # the engine ends every branch before the request
    content, thinking, calls = parse_reply(given.asked.parser(), branch.text)
    said, end = given.form(content, thinking, calls), given.end(branch.ended, branch.tokens)
    counts = {"index": index, "eval_count": branch.ended.length, "seed": branch.seed}
    whole = cast(JSONObject, {**said, **end, **counts})
    if branch.probs:
        whole["logprobs"] = branch.probs
    if branch.error is not None:
        whole["failure"] = branch.error.message
    return whole


def ollama_error(error: SRBError) -> JSONObject:
    return {"error": error.message}
