"""Completions in KoboldCpp's form: a stream of `event: message`, or a list of results, one of each branch."""

import orjson

from srb.errors import SRBError
from srb.web.answers import JSONObject
from srb.web.calls.calls import Call
from srb.web.calls.outcome import BranchOutcome, Outcome
from srb.web.calls.renderer import FINISH_REASONS, Renderer
from srb.web.dialects.openai.completion_render import legacy_logprobs
from srb.wire.events import BranchAdded, BranchEnded, Delta


def message(value: JSONObject) -> bytes:
    return b"event: message\ndata: " + orjson.dumps(value) + b"\n\n"


class KoboldRenderer(Renderer):
    """A stream of new text."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._several = len(self._specs) > 1

    def delta(self, event: Delta) -> bytes:
        return self._token(event.index, event.text, None) if event.text else b""

    def branch_added(self, event: BranchAdded) -> bytes:
        super().branch_added(event)
        self._several = len(self._specs) > 1
        begun = "" if event.resumed else event.text
        return self._token(event.index, begun, None) if begun else b""

    def _branch_ended(self, event: BranchEnded, error: SRBError | None) -> bytes:
        return self._token(event.index, "", FINISH_REASONS[event.reason])

    def failed(self, error: SRBError) -> bytes:
        return message({"token": "", "finish_reason": "error", "detail": {"msg": error.message, "type": error.type}})

    def _token(self, index: int, text: str, reason: str | None) -> bytes:
        token: JSONObject = {"token": text, "finish_reason": reason}
        if self._several:
            token["index"] = index
        return message(token)


def results(outcome: Outcome) -> JSONObject:
    prompt_tokens = sum(event.prompt_tokens for event in outcome.done)
    return {"results": [_result(branch, prompt_tokens) for branch in outcome.branches]}


def _result(branch: BranchOutcome, prompt_tokens: int) -> JSONObject:
    assert branch.ended is not None  # the engine ends every branch before the request
    return {
        "text": branch.text,
        "finish_reason": FINISH_REASONS[branch.ended.reason],
        "logprobs": legacy_logprobs(branch.probs, 0) if branch.probs else None,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": branch.ended.length,
        "seed": branch.seed,
    }
