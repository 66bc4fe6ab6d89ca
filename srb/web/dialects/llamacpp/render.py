"""llama-server's own completions of 2026, with the keys of 2024, rendered as a stream and as one answer.

A stream has one event per branch and step. The object that ends a branch is the same in a stream and in an answer, except
that a stream's has no text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from srb.errors import SRBError
from srb.web.answers import JSONObject, Ranking, Timings
from srb.web.bodies.fields import EMPTY_PROMPT
from srb.web.calls.calls import Call
from srb.web.calls.echo import read_back
from srb.web.calls.engine_client import EngineClient
from srb.web.calls.outcome import Outcome, PromptTimes, error_of, timings
from srb.web.calls.renderer import Renderer, prompt_progress, sse
from srb.web.dialects.llamacpp.body import LlamaCompletionBody
from srb.web.dialects.llamacpp.generation_settings import generation_settings
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import (
    BranchAdded,
    BranchEnded,
    Delta,
    Done,
    FinishReason,
    LikelyToken,
    ModelInfo,
    Progress,
    PromptDone,
    PromptEvent,
    TokenProbs,
)

STOP_TYPES: dict[str, Literal["none", "eos", "limit", "word"]] = {
    FinishReason.EOS: "eos",
    FinishReason.WORD: "word",
    FinishReason.BOUNDARY: "word",  # without a stopping_word
    FinishReason.LIMIT: "limit",
    FinishReason.CANCELLED: "none",
    FinishReason.ERROR: "none",
}


@dataclass(slots=True)
class _Choice:
    """One branch of the call while its text arrives."""

    command: Generate
    index: int  # in its request
    length: int = 0
    has_new_line: bool = False

    @property
    def spec(self) -> BranchSpec:
        branches = self.command.branches
        return branches[self.index if self.index < len(branches) else 0]  # added branches are like the first one


class PromptTexts:
    """The texts of prompts, each read back when it is first asked for, since no first token has to wait for it."""

    def __init__(self, client: EngineClient, model: ModelInfo) -> None:
        self._client = client
        self._model = model
        self._known: dict[str, str] = {}

    def of(self, command: Generate) -> str:
        """Return a prompt as text, with the BOS that the tokenizer adds before a string, or with the blank page."""
        if command.request_id not in self._known:
            is_empty = command.prompt == EMPTY_PROMPT
            has_bos = not is_empty and self._model.add_bos and isinstance(command.prompt[0], str)
            prompt = tuple(self._model.blank_page) if is_empty else command.prompt
            text = read_back(self._client, prompt, with_pieces=False).text
            self._known[command.request_id] = (self._model.bos_token if has_bos else "") + text
        return self._known[command.request_id]


class Answers:
    """The answers of a call's branches; a branch is identified by its number among all branches of the call."""

    def __init__(self, call: Call, model: ModelInfo, asked: LlamaCompletionBody, texts: PromptTexts) -> None:
        self.asked = asked
        self.times = PromptTimes()
        self.choices = [_Choice(command, index) for command in call.commands for index in range(len(command.branches))]
        self._texts = texts
        self.prompt_tokens = call.mailbox.prompt_tokens
        self._model = model

    def choose(self, request_id: str, specs: Sequence[BranchSpec], slots: list[int]) -> None:
        """Take the specs and slots of a request's chosen branches for those of its branches."""
        self.times.choose(request_id, slots)
        for choice in self.choices:
            if choice.command.request_id == request_id:
                choice.command = replace(choice.command, branches=tuple(specs))

    def slot(self, number: int) -> int:
        """Return the slot of a branch; before its request has one, it is the branch's number."""
        choice = self.choices[number]
        slots = self.times.prompt(choice.command.request_id).slots
        return slots[choice.index] if choice.index < len(slots) else number

    def grow(self, count: int) -> None:
        """Make room for `count` choices of a call with one request, whose branches are added while it runs."""
        first = self.choices[0]
        self.choices += [_Choice(first.command, i) for i in range(len(self.choices), count)]

    def final(self, number: int, ended: BranchEnded, content: str = "") -> JSONObject:
        """Return the object that ends a branch; `content` is its whole text if it was not streamed."""
        choice = self.choices[number]
        request_id, length = choice.command.request_id, ended.length
        evaluated = self.prompt_tokens[request_id]
        final: JSONObject = {
            "index": number,
            "content": content,
            "tokens": [],
            "id_slot": self.slot(number),
            "stop": True,
            "model": self._model.alias,
            "tokens_predicted": length,
            "tokens_evaluated": evaluated,
            "generation_settings": generation_settings(choice.command, choice.spec, self._model, self.asked),
            "prompt": self._texts.of(choice.command),
            "has_new_line": choice.has_new_line,
            "truncated": ended.truncated,
            "stop_type": STOP_TYPES[ended.reason],
            "stopping_word": ended.stopping_word,
            # The last token was sampled but not decoded, unless the end of the text was sampled after it.
            "tokens_cached": evaluated + (length if ended.reason == FinishReason.EOS else max(0, length - 1)),
            "timings": self.timings(request_id, length, ended.predicted_ms, ended),
            "stopped_eos": ended.reason == FinishReason.EOS,
            "stopped_limit": ended.reason == FinishReason.LIMIT,
            "stopped_word": STOP_TYPES[ended.reason] == "word",
        }
        if (error := error_of(ended)) is not None:
            final["failure"] = error.body()["error"]  # at "error", clients would abandon the other branches
        return final

    def timings(self, request_id: str, length: int, predicted_ms: float, ended: BranchEnded | None = None) -> Timings:
        """Return one branch's timings, which may have `ended`; those of the prompt are its request's.

        As in llama-server, the first token costs no step, so the rate is that of the other tokens.
        """
        prompt = self.times.prompt(request_id)
        evaluated = self.prompt_tokens[request_id]
        times = prompt.prompt_ms, predicted_ms
        more = {"image_tokens": prompt.image_tokens, "audio_tokens": prompt.audio_tokens}
        more["computed_tokens"] = prompt.computed_tokens
        if ended is not None:
            more |= {"drafted_tokens": ended.drafted, "accepted_tokens": ended.accepted}
            more["computed_tokens"] += ended.given_computed
        found = timings([Done(request_id, evaluated, prompt.cached_tokens, length, *times, **more)])
        steps = max(0, length - 1)
        found["predicted_per_token_ms"] = predicted_ms / steps if steps else 0.0
        found["predicted_per_second"] = steps * 1000 / predicted_ms if steps and predicted_ms else 0.0
        return found

    def fields(self, final: JSONObject) -> JSONObject:
        """Return the keys of an object that `response_fields` names: "a/b" is b of a, under the key "a/b"."""
        if not self.asked.response_fields:
            return final
        return {path: value for path in self.asked.response_fields if (value := _at(final, path)) is not _NOTHING}


def completion(answers: Answers, outcome: Outcome, ranking: Ranking | None = None) -> JSONObject | list[JSONObject]:
    """Return the answer of a call that was not streamed: one object, or a list of one object per branch.

    The last object has the ranking.
    """
    finals: list[JSONObject] = []
    answers.times = outcome.times
    answers.grow(len(outcome.branches))
    for number, branch in enumerate(outcome.branches):
        assert branch.ended is not None  # the engine ends every branch before the request
        answers.choices[number].has_new_line = "\n" in branch.text
        final = answers.final(number, branch.ended, branch.text)
        if answers.asked.return_tokens:
            final["tokens"] = branch.tokens
        if branch.probs:
            final["completion_probabilities"] = probabilities(branch.probs)
        if number == len(outcome.branches) - 1:
            final = {**final, **(ranking or {})}
        finals.append(answers.fields(final))
    return finals[0] if len(finals) == 1 else finals


class LlamaRenderer(Renderer):
    """Events of a stream; the constant parts of a branch's events are encoded once."""

    def __init__(self, call: Call, answers: Answers) -> None:
        super().__init__(call)
        self._answers = answers
        self._running = len(answers.choices)
        # As llama-server's of one branch, on which clients rely. With probabilities each token has its event, at once.
        only = answers.choices[0] if len(answers.choices) == 1 else None
        self.writes_one_by_one = bool(only and only.command.explore is None and only.spec.sampling.n_probs < 0)
        self._heads = [_head(number) for number in range(len(answers.choices))]
        self._middles = [self._middle(number) for number in range(len(self._heads))]
        self._tails = [
            b',"tokens_evaluated":%d}\n\n' % answers.prompt_tokens[choice.command.request_id]
            for choice in answers.choices
        ]

    def choose(self, request_id: str, specs: Sequence[BranchSpec], slots: list[int]) -> None:
        super().choose(request_id, specs, slots)
        self._answers.choose(request_id, specs, slots)

    def prompt(self, event: PromptEvent) -> bytes:
        if type(event) is PromptDone:
            self._answers.times.put(event)
            first = self._firsts[event.request_id]
            for number in range(first, first + len(event.slots)):
                self._middles[number] = self._middle(number)
        elif type(event) is Progress:
            return sse(self.progress(event))
        return b""

    def branch_added(self, event: BranchAdded) -> bytes:
        self.grow(event)
        return self.delta(event.begun) if event.tokens else b""

    def grow(self, event: BranchAdded) -> None:
        """Take a branch in that was added, or that goes on."""
        super().branch_added(event)
        self._running += 1
        if event.resumed:
            return
        number = len(self._heads)
        self._answers.grow(number + 1)
        self._heads.append(_head(number))
        self._middles.append(self._middle(number))
        self._tails.append(self._tails[0])

    def _middle(self, number: int) -> bytes:
        return b',"stop":false,"id_slot":%d,"tokens_predicted":' % self._answers.slot(number)

    def progress(self, event: Progress) -> JSONObject:
        """Return the object of a prompt's progress, once for all branches that share the prompt."""
        said = self._partial(self._firsts[event.request_id], "", [])
        said["id_slot"] = event.slot
        said["prompt_progress"] = prompt_progress(event)
        if self._answers.asked.timings_per_token:
            spent_ms = event.time_ms if event.processed > event.cached else 0.0
            computed = event.processed - event.cached
            done = Done(event.request_id, event.processed, event.cached, 0, spent_ms, 0.0, computed_tokens=computed)
            said["timings"] = timings([done])
        return said

    def delta(self, event: Delta) -> bytes:
        if event.probs or self._answers.asked.timings_per_token:
            return sse(self.partial(event))
        number, choice = self._count(event)
        return b'%b%b,"tokens":%b%b%d%b' % (
            self._heads[number],
            orjson.dumps(event.text),
            orjson.dumps(event.tokens),
            self._middles[number],
            choice.length,
            self._tails[number],
        )

    def _count(self, event: Delta) -> tuple[int, _Choice]:
        """Count a branch's new tokens; return its number and its state."""
        number = self._firsts[event.request_id] + event.index
        choice = self._answers.choices[number]
        choice.length += len(event.tokens)
        choice.has_new_line = choice.has_new_line or "\n" in event.text
        return number, choice

    def _partial(self, number: int, text: str, tokens: list[int]) -> JSONObject:
        choice = self._answers.choices[number]
        return {
            "index": number,
            "content": text,
            "tokens": tokens,
            "stop": False,
            "id_slot": self._answers.slot(number),
            "tokens_predicted": choice.length,
            "tokens_evaluated": self._answers.prompt_tokens[choice.command.request_id],
        }

    def partial(self, event: Delta) -> JSONObject:
        """Return the object of a branch's new text."""
        number, choice = self._count(event)
        partial = self._partial(number, event.text, event.tokens)
        if self._answers.asked.timings_per_token:
            partial["timings"] = self._answers.timings(event.request_id, choice.length, event.predicted_ms)
        if event.probs:
            partial["completion_probabilities"] = probabilities(event.probs)
        return partial

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        """Render the object that ends a branch; this dialect has no further event at the end of a stream."""
        return sse(self.final(event))

    def final(self, event: BranchEnded) -> JSONObject:
        """Return the object that ends a branch."""
        number = self._firsts[event.request_id] + event.index
        final = self._answers.final(number, event)
        self._running -= 1
        if not self._running:
            final = {**final, **self.ranking()}
        return self._answers.fields(final)


def _head(number: int) -> bytes:
    return b'data: {"index":%d,"content":' % number


def probabilities(probs: list[TokenProbs]) -> list[JSONObject]:
    """Return entries of Delta.probs with the keys of 2024 in addition: `content` and `probs`."""
    return [
        {
            **entry,
            "content": entry["token"],
            "probs": [{"tok_str": top["token"], "prob": _probability(top)} for top in _tops(entry)],
        }
        for entry in probs
    ]


def _tops(entry: TokenProbs) -> list[LikelyToken]:
    return entry["top_probs"] if "prob" in entry else entry["top_logprobs"]


def _probability(entry: LikelyToken) -> float:
    if "prob" in entry:
        return entry["prob"]
    logprob = entry["logprob"]
    assert logprob is not None  # only a prompt's first token has none, and it has no likely tokens
    return math.exp(logprob)


_NOTHING = object()


def _at(value: Any, path: str) -> Any:
    for key in path.split("/"):
        if not isinstance(value, dict) or key not in value:
            return _NOTHING
        value = value[key]
    return value
