"""The JSON shapes of llama-server's own dialect: its completions as of 2026, with the keys of 2024 beside them.

One event per branch and step. The object that ends a branch is the same streamed and not, but for the text in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from srb.errors import SRBError
from srb.protocol import (
    BranchEnded,
    BranchSpec,
    Delta,
    Done,
    FinishReason,
    Generate,
    ModelInfo,
    Progress,
    PromptDone,
    PromptProbs,
)
from srb.web.llamacpp_schemas import LlamaCompletionBody
from srb.web.open_requests import OpenRequest
from srb.web.outcome import Outcome, PromptTimes, error_of, first_choices, timings
from srb.web.settings_shapes import generation_settings
from srb.web.streaming import Renderer, sse

STOP_TYPES: dict[str, str] = {
    FinishReason.EOS: "eos",
    FinishReason.WORD: "word",
    FinishReason.LIMIT: "limit",
    FinishReason.CANCELLED: "none",
    FinishReason.ERROR: "none",
}


@dataclass(slots=True)
class _Choice:
    """One branch of the call while its text comes."""

    command: Generate
    spec: BranchSpec
    prompt_text: str
    length: int = 0
    has_new_line: bool = False


class Answers:
    """What is said of each branch of one call; a branch is known by its number among all branches of the call."""

    def __init__(
        self, opened: OpenRequest, model: ModelInfo, asked: LlamaCompletionBody, prompt_texts: Sequence[str]
    ) -> None:
        self.asked = asked
        self.times = PromptTimes()
        self.choices = [
            _Choice(command, spec, text)
            for command, text in zip(opened.commands, prompt_texts, strict=True)
            for spec in command.branches
        ]
        self.prompt_tokens = opened.mailbox.prompt_tokens
        self._model = model

    def final(self, number: int, ended: BranchEnded, predicted_ms: float, content: str = "") -> dict[str, Any]:
        """Return the object that ends a branch; `content` is its whole text where it was not streamed."""
        choice = self.choices[number]
        request_id, length = choice.command.request_id, ended.length
        evaluated = self.prompt_tokens[request_id]
        final: dict[str, Any] = {
            "index": number,
            "content": content,
            "tokens": [],
            "id_slot": number,
            "stop": True,
            "model": self._model.alias,
            "tokens_predicted": length,
            "tokens_evaluated": evaluated,
            "generation_settings": generation_settings(choice.command, choice.spec, self._model, self.asked),
            "prompt": choice.prompt_text,
            "has_new_line": choice.has_new_line,
            "truncated": ended.truncated,
            "stop_type": STOP_TYPES[ended.reason],
            "stopping_word": ended.stopping_word,
            # The last token was chosen and not computed, unless the end of the text was chosen after it.
            "tokens_cached": evaluated + (length if ended.reason == FinishReason.EOS else max(0, length - 1)),
            "timings": self.timings(request_id, length, predicted_ms),
            "stopped_eos": ended.reason == FinishReason.EOS,
            "stopped_limit": ended.reason == FinishReason.LIMIT,
            "stopped_word": ended.reason == FinishReason.WORD,
        }
        if (error := error_of(ended)) is not None:
            final["failure"] = error.body()["error"]  # not "error", at which clients give up the other branches
        return final

    def timings(self, request_id: str, length: int, predicted_ms: float) -> dict[str, float]:
        """Return one branch's timings; the prompt's are those of the request that it belongs to.

        As llama-server has it, the first token costs no step, so the rate is that of the others.
        """
        prompt = self.times.prompt(request_id)
        evaluated = self.prompt_tokens[request_id]
        found = timings([Done(request_id, evaluated, prompt.cached_tokens, length, prompt.prompt_ms, predicted_ms)])
        steps = max(0, length - 1)
        found["predicted_per_token_ms"] = predicted_ms / steps if steps else 0.0
        found["predicted_per_second"] = steps * 1000 / predicted_ms if steps and predicted_ms else 0.0
        return found

    def fields(self, final: dict[str, Any]) -> dict[str, Any]:
        """Return what of an object `response_fields` asks for: "a/b" is b of a, under the key "a/b"."""
        if not self.asked.response_fields:
            return final
        return {path: value for path in self.asked.response_fields if (value := _at(final, path)) is not _NOTHING}


def completion(answers: Answers, outcome: Outcome) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the answer of a call that was not streamed: an object, or a list of them where there are several."""
    finals = []
    answers.times = outcome.times
    for number, branch in enumerate(outcome.branches):
        assert branch.ended is not None  # the engine ends every branch before the request
        answers.choices[number].has_new_line = "\n" in branch.text
        final = answers.final(number, branch.ended, branch.predicted_ms, branch.text)
        if answers.asked.return_tokens:
            final["tokens"] = branch.tokens
        if branch.probs:
            final["completion_probabilities"] = probabilities(branch.probs)
        finals.append(answers.fields(final))
    return finals[0] if len(finals) == 1 else finals


class LlamaRenderer(Renderer):
    """Streamed events; the constant parts of a branch's events are encoded once."""

    def __init__(self, opened: OpenRequest, answers: Answers) -> None:
        self._answers = answers
        self._firsts = first_choices(opened)
        self._errors: list[SRBError] = []
        self._heads = [b'data: {"index":%d,"content":' % number for number in range(len(answers.choices))]
        self._middles = [
            b',"stop":false,"id_slot":%d,"tokens_predicted":' % number for number in range(len(self._heads))
        ]
        self._tails = [
            b',"tokens_evaluated":%d}\n\n' % answers.prompt_tokens[choice.command.request_id]
            for choice in answers.choices
        ]

    def start(self) -> bytes:
        return b""

    def prompt(self, event: Progress | PromptProbs | PromptDone) -> bytes:
        if type(event) is PromptDone:
            self._answers.times.put(event)
        elif type(event) is Progress:
            return self._progress(event)
        return b""

    def _progress(self, event: Progress) -> bytes:
        """Say how far a prompt is, once for all its branches: they share it."""
        progress = {
            "total": event.total,
            "cache": event.cached,
            "processed": event.processed,
            "time_ms": round(event.time_ms),
        }
        said = {**self._partial(self._firsts[event.request_id], "", []), "prompt_progress": progress}
        if self._answers.asked.timings_per_token:
            spent_ms = event.time_ms if event.processed > event.cached else 0.0
            said["timings"] = timings([Done(event.request_id, event.processed, event.cached, 0, spent_ms, 0.0)])
        return sse(said)

    def delta(self, event: Delta) -> bytes:
        number = self._firsts[event.request_id] + event.index
        choice = self._answers.choices[number]
        choice.length += len(event.tokens)
        choice.has_new_line = choice.has_new_line or "\n" in event.text
        if event.probs or self._answers.asked.timings_per_token:
            return sse(self._detailed(number, event))
        return b'%b%b,"tokens":%b%b%d%b' % (
            self._heads[number],
            orjson.dumps(event.text),
            orjson.dumps(event.tokens),
            self._middles[number],
            choice.length,
            self._tails[number],
        )

    def _partial(self, number: int, text: str, tokens: list[int]) -> dict[str, Any]:
        choice = self._answers.choices[number]
        return {
            "index": number,
            "content": text,
            "tokens": tokens,
            "stop": False,
            "id_slot": number,
            "tokens_predicted": choice.length,
            "tokens_evaluated": self._answers.prompt_tokens[choice.command.request_id],
        }

    def _detailed(self, number: int, event: Delta) -> dict[str, Any]:
        partial = self._partial(number, event.text, event.tokens)
        if self._answers.asked.timings_per_token:
            predicted_ms = self._answers.times.since(event.request_id)
            length = self._answers.choices[number].length
            partial["timings"] = self._answers.timings(event.request_id, length, predicted_ms)
        if event.probs:
            partial["completion_probabilities"] = probabilities(event.probs)
        return partial

    def branch_ended(self, event: BranchEnded) -> bytes:
        number = self._firsts[event.request_id] + event.index
        if (error := error_of(event)) is not None:
            self._errors.append(error)
        final = self._answers.final(number, event, self._answers.times.since(event.request_id))
        return sse(self._answers.fields(final))

    def end(self, done: list[Done]) -> bytes:
        """Say nothing more, unless every branch failed: this dialect has no mark for the end of a stream."""
        return self.failed(self._errors[0]) if len(self._errors) == len(self._heads) else b""

    def failed(self, error: SRBError) -> bytes:
        return sse(error.body())


def probabilities(probs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return entries of Delta.probs with the names of 2024 beside theirs: `content` and `probs`."""
    return [
        {
            **entry,
            "content": entry["token"],
            "probs": [{"tok_str": top["token"], "prob": _probability(top)} for top in _tops(entry)],
        }
        for entry in probs
    ]


def _tops(entry: dict[str, Any]) -> list[dict[str, Any]]:
    tops: list[dict[str, Any]] = entry["top_probs"] if "prob" in entry else entry["top_logprobs"]
    return tops


def _probability(entry: dict[str, Any]) -> float:
    probability: float = entry["prob"] if "prob" in entry else math.exp(entry["logprob"])
    return probability


_NOTHING = object()


def _at(value: Any, path: str) -> Any:
    for key in path.split("/"):
        if not isinstance(value, dict) or key not in value:
            return _NOTHING
        value = value[key]
    return value
