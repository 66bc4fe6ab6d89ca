"""OpenAI's text completions, rendered as streamed chunks and as one object.

Clients rely on these details: `stop_reason` is the matched stop string, "" or "boundary", an event has one choice,
and usage is sent once, summed over the branches.
"""

import math
from collections.abc import Sequence

import orjson

from srb.errors import SRBError, from_code
from srb.web.answers import JSONObject, Ranking
from srb.web.calls.calls import Call
from srb.web.calls.echo import Echo
from srb.web.calls.outcome import BranchOutcome, Outcome
from srb.web.calls.renderer import FINISH_REASONS, prompt_progress
from srb.web.dialects.llamacpp.render import Answers
from srb.web.dialects.openai.frame import DONE, ChunkRenderer, origin, whole
from srb.web.dialects.openai.token_fields import NO_IDS, TokenIds, prompt_logprobs
from srb.wire.events import (
    BranchAdded,
    BranchEnded,
    Delta,
    FinishReason,
    LikelyToken,
    ModelInfo,
    Progress,
    PromptDone,
    PromptEvent,
    PromptLogprobs,
    TokenProbs,
)


class CompletionRenderer(ChunkRenderer):
    """Streamed chunks of `/v1/completions`."""

    def __init__(
        self,
        call: Call,
        model: ModelInfo,
        include_usage: bool = False,
        ids: TokenIds = NO_IDS,
        echoes: Sequence[Echo] = (),
        last: bytes = DONE,
        verbose: Answers | None = None,
    ) -> None:
        empty: JSONObject = {"object": "text_completion", **origin("cmpl", call, model), "choices": []}
        super().__init__(call, empty, include_usage, verbose, last)
        self._commands = {command.request_id: command for command in call.commands}
        self._ids = ids
        self._echoes = dict(zip(self._commands, echoes, strict=False))  # all prompts, or none
        self._prompt_logprobs: dict[str, list[TokenProbs]] = {}
        self._offsets = [0] * len(self._specs)  # characters sent so far, for text_offset
        self._before, self._after = self._around(b'"text":', b',"logprobs":null,"finish_reason":null')

    def start(self) -> bytes:
        begun = b""
        for number, (request_id, command) in enumerate(self._commands.items()):
            if ids := self._ids.of_prompt(number):
                first = self._firsts[request_id]
                indices = range(first, first + len(command.branches))
                begun += b"".join(self._chunk({**_empty_choice(index), **self._ids.of(()), **ids}) for index in indices)
        return begun + b"".join(
            self._echo(request_id, echo, None)
            for request_id, echo in self._echoes.items()
            if not self._commands[request_id].prompt_logprobs
        )

    def prompt(self, event: PromptEvent) -> bytes:
        if type(event) is Progress:
            verbose = self._verbose.progress(event) if self._verbose is not None else None
            return self._chunk(_empty_choice(self._firsts[event.request_id]), prompt_progress(event), verbose)
        if type(event) is PromptLogprobs:
            self._prompt_logprobs.setdefault(event.request_id, []).extend(event.probs)
        elif type(event) is PromptDone and event.request_id in self._prompt_logprobs:
            echo = self._echoes[event.request_id]
            labelled = echo.label(self._prompt_logprobs.pop(event.request_id))
            return super().prompt(event) + self._echo(event.request_id, echo, labelled)
        return super().prompt(event)

    def _echo(self, request_id: str, echo: Echo, probs: list[TokenProbs] | None) -> bytes:
        """Render a prompt's text as the beginning of each of its choices."""
        first = self._firsts[request_id]
        logprobs = legacy_logprobs(probs, 0) if probs else None
        parts = []
        for index in range(first, first + len(self._commands[request_id].branches)):
            self._offsets[index] = len(echo.text)
            parts.append(self._chunk({"index": index, "text": echo.text, "logprobs": logprobs, "finish_reason": None}))
        return b"".join(parts)

    def _begun(self, event: BranchAdded) -> bytes:
        self._before.append(self._before_index(len(self._before)))
        self._offsets.append(len(event.text))
        return self.delta(event.begun) if event.tokens else b""

    def delta(self, event: Delta) -> bytes:
        index = self._firsts[event.request_id] + event.index
        if event.probs or self._ids or self._verbose is not None:
            return self._detailed(index, event)
        return self._before[index] + orjson.dumps(event.text) + self._after if event.text else b""

    def _detailed(self, index: int, event: Delta) -> bytes:
        choice: JSONObject = {"index": index, "text": event.text, "logprobs": None, "finish_reason": None}
        if event.probs:
            choice["logprobs"] = legacy_logprobs(event.probs, self._offsets[index])
            self._offsets[index] += sum(len(entry["token"]) for entry in event.probs)
        choice |= self._ids.of(event.tokens)
        return self._chunk(choice, verbose=self._verbose.partial(event) if self._verbose is not None else None)

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        index = self._firsts[event.request_id] + event.index
        seed = self._specs[index].seed
        choice: JSONObject = {"index": index, "text": "", "logprobs": None, **ending(event), "seed": seed}
        choice |= TokenIds(prompts=self._ids.prompts).of((), event)
        return self._chunk(choice, verbose=self._verbose.final(event) if self._verbose is not None else None)


def completion(
    call: Call,
    model: ModelInfo,
    outcome: Outcome,
    branches: Sequence[BranchOutcome],
    *,
    logprobs: bool = False,
    ids: TokenIds = NO_IDS,
    echoes: Sequence[Echo] = (),
    verbose: Answers | None = None,
    ranking: Ranking | None = None,
) -> JSONObject:
    """Return the answer of a call that was not streamed.

    `branches` are the outcome's branches to return, equally many per prompt. `echoes` has one entry per prompt if texts
    begin with their prompts, else none.
    """
    each = len(branches) // len(call.commands)
    choices: list[JSONObject] = []
    for index, branch in enumerate(branches):
        command = call.commands[index // each]
        text, probs = branch.text, branch.probs
        if echoes:
            echo = echoes[index // each]
            text = echo.text + text
            probs = (
                echo.label(outcome.prompt_logprobs[command.request_id]) + probs if command.prompt_logprobs else probs
            )
        assert branch.ended is not None  # the engine ends every branch before the request
        choice: JSONObject = {
            "index": index,
            "text": text,
            "logprobs": legacy_logprobs(probs, 0) if logprobs and probs else None,
            **ending(branch.ended),
            "seed": branch.seed,
        }
        choice |= ids.of(branch.tokens, branch.ended) | ids.of_prompt(index // each)
        if command.prompt_top >= 0:
            choice["prompt_logprobs"] = prompt_logprobs(outcome.prompt_logprobs[command.request_id])
        choices.append(choice)
    frame = whole("cmpl", call, model, outcome, verbose, ranking or {})
    return {"object": "text_completion", "choices": choices, **frame}


def _empty_choice(index: int) -> JSONObject:
    return {"index": index, "text": "", "logprobs": None, "finish_reason": None}


def ending(event: BranchEnded) -> JSONObject:
    """Return the keys of a choice that describe its end."""
    choice: JSONObject = {"finish_reason": FINISH_REASONS[event.reason]}
    if choice["finish_reason"] == "stop":
        choice["stop_reason"] = "boundary" if event.reason == FinishReason.BOUNDARY else event.stopping_word
        if event.reason == FinishReason.WORD and event.end_token is not None:
            choice["stop_reason"] = event.end_token
    if event.reason == FinishReason.ERROR:
        choice["error"] = from_code(event.code, event.message).body()["error"]
    return choice


def legacy_logprobs(probs: list[TokenProbs], offset: int) -> JSONObject:
    """Return the logprobs object of text completions, with that of chats under `content`.

    `offset` is the index of the first token's text in the choice's text, in characters. A prompt's first token has no
    probability: its token_logprobs and top_logprobs are null.
    """
    offsets = []
    for entry in probs:
        offsets.append(offset)
        offset += len(entry["token"])
    return {
        "tokens": [entry["token"] for entry in probs],
        "token_logprobs": [_logprob(entry) for entry in probs],
        "top_logprobs": [None if _logprob(entry) is None else _top_logprobs(entry) for entry in probs],
        "text_offset": offsets,
        "content": probs,
    }


def _top_logprobs(entry: TokenProbs) -> dict[str, float]:
    """Return the likely tokens and the chosen one by their texts, the most likely first.

    Of tokens with the same text, the chosen one counts, else the most likely: a client always finds the chosen token's own
    log-probability under its text. So there may be one entry more than requested, as in OpenAI's answers.
    """
    found = {entry["token"]: _known_logprob(entry)}
    for top in entry.get("top_logprobs") or entry.get("top_probs") or []:
        if top["id"] != entry["id"]:  # the chosen token's text here may be shorter than its piece
            found.setdefault(top["token"], _known_logprob(top))
    return dict(sorted(found.items(), key=lambda pair: pair[1], reverse=True))


def _known_logprob(entry: LikelyToken) -> float:
    logprob = _logprob(entry)
    assert logprob is not None  # only a prompt's first token has none
    return logprob


def _logprob(entry: LikelyToken) -> float | None:
    """Return an entry's log-probability, from its probability with post_sampling_probs (-1e9 for 0)."""
    if "prob" not in entry:
        return entry["logprob"]
    return math.log(entry["prob"]) if entry["prob"] > 0 else -1e9
