"""The response around its items: what was asked for, the branches' ends, and the sums of usage."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from srb.errors import SRBError, from_code
from srb.web.answers import JSONObject, Ranking
from srb.web.calls.calls import Call
from srb.web.calls.outcome import timings, usage
from srb.web.chat.blocks import Block, Blocks
from srb.web.dialects.openai.chat_body import ChatRequest
from srb.web.dialects.openai.completion_render import ending
from srb.web.dialects.responses.body import ResponsesBody
from srb.web.dialects.responses.items import namespaced
from srb.wire.events import BranchEnded, Done, FinishReason, ModelInfo, TokenProbs

_PREFIXES = {"reasoning": "rs", "text": "msg", "call": "fc"}


@dataclass(slots=True)
class ResponseBranch:
    """One branch of a response: its blocks, the log-probabilities of its tokens, and its end."""

    index: int
    seed: int
    blocks: Blocks
    probs: list[TokenProbs] = field(default_factory=list)
    ended: BranchEnded | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the branch was ended before its text was."""
        return self.ended is not None and ending(self.ended)["finish_reason"] in ("length", "error")

    @property
    def error(self) -> SRBError | None:
        """The error that ended the branch, if one did."""
        if self.ended is None or self.ended.reason != FinishReason.ERROR:
            return None
        return from_code(self.ended.code, self.ended.message)

    def status(self, block: Block) -> str:
        """Return the status of a block that has ended."""
        if block.kind == "call":
            return "completed" if block.is_whole else "incomplete"
        return "incomplete" if self.is_cut and block is self.blocks.all[-1] else "completed"

    def described(self) -> JSONObject:
        if self.ended is None:
            return {"index": self.index, "seed": self.seed, "finish_reason": None}
        end: JSONObject = {"index": self.index, "seed": self.seed, **ending(self.ended)}
        if self.blocks.calls and end["finish_reason"] == "stop":
            end["finish_reason"] = "tool_calls"
        return end


class ResponseFrame:
    """The response of one call, in each state of it."""

    def __init__(
        self, asked: ChatRequest, body: ResponsesBody, given: dict[str, Any], call: Call, model: ModelInfo
    ) -> None:
        """Keep what is sent back of `given`, the body as it came."""
        self._id = call.commands[0].request_id
        self._asked = asked
        self._namespaced = namespaced(given.get("tools"))
        first = call.commands[0].branches[0]
        self._empty: JSONObject = {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": int(time.time()),
            "completed_at": None,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": model.alias,
            "output": [],
            "usage": None,
            "branches": [],
            "instructions": body.instructions,
            "max_output_tokens": body.n_predict,
            "metadata": body.metadata,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": body.reasoning_effort, "summary": body.reasoning.summary},
            "store": False,
            "temperature": first.sampling.temperature,
            "text": _text_of(given),
            "tool_choice": given.get("tool_choice", "auto"),
            "tools": [{"type": "function", **tool["function"]} for tool in body.tools],
            "top_logprobs": body.top_logprobs or 0,
            "top_p": first.sampling.top_p,
            "truncation": "disabled",
            "background": False,
        }

    def branch(self, index: int, seed: int) -> ResponseBranch:
        return ResponseBranch(index, seed, Blocks(self._asked.parser(stream=False, in_parts=True)))

    def begun(self, branches: Sequence[ResponseBranch]) -> JSONObject:
        return {**self._empty, "branches": [branch.described() for branch in branches]}

    def ended(
        self, branches: Sequence[ResponseBranch], output: list[JSONObject], done: list[Done], ranking: Ranking
    ) -> JSONObject:
        """Return the response at its end; `output` has the items of all branches."""
        error = next((branch.error for branch in branches if branch.error is not None), None)
        cut = error is None and any(branch.is_cut for branch in branches)
        status: str = "failed" if error is not None else "incomplete" if cut else "completed"
        return {
            **self._finished(branches, output, status),
            "error": _error(error) if error is not None else None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": _usage(done, branches),
            "timings": timings(done),
            **ranking,
        }

    def failed(self, branches: Sequence[ResponseBranch], output: list[JSONObject], error: SRBError) -> JSONObject:
        return {**self._finished(branches, output, "failed"), "error": _error(error)}

    def _finished(self, branches: Sequence[ResponseBranch], output: list[JSONObject], status: str) -> JSONObject:
        return {**self.begun(branches), "status": status, "output": output, "completed_at": int(time.time())}

    def item(self, branch: ResponseBranch, block: Block, status: str) -> JSONObject:
        """Return a block as an item; one in progress is without its text."""
        of_branch: JSONObject = {"branch": branch.index} if branch.index else {}
        item_id = f"{_PREFIXES[block.kind]}_{self._id}_{branch.index}_{block.place}"
        begins = status == "in_progress"
        if block.kind == "call":
            namespace, name = self._namespaced.get(block.name, ("", block.name))
            of_namespace: JSONObject = {"namespace": namespace} if namespace else {}
            return {
                "id": item_id,
                "type": "function_call",
                "status": status,
                "call_id": block.id,
                "name": name,
                "arguments": "" if begins else block.text,
                **of_branch,
                **of_namespace,
            }
        if block.kind == "reasoning":
            return {
                "id": item_id,
                "type": "reasoning",
                "status": status,
                "summary": [],
                "content": [] if begins else [{"type": "reasoning_text", "text": block.text}],
                "encrypted_content": None,
                **of_branch,
            }
        return {
            "id": item_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": []
            if begins
            else [
                {"type": "output_text", "text": block.text, "annotations": [], "logprobs": self.probs(branch, block)}
            ],
            **of_branch,
        }

    def probs(self, branch: ResponseBranch, block: Block) -> list[TokenProbs]:
        """Return the log-probabilities that a text has: the first text of a branch has those of all its tokens."""
        first = next(each for each in branch.blocks.all if each.kind == "text")
        return branch.probs if block is first else []


def _text_of(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": {"type": "text"},
        **{name: part for name, part in given.get("text", {}).items() if part is not None},
    }


def _usage(done: Iterable[Done], branches: Sequence[ResponseBranch]) -> JSONObject:
    summed = usage(done)
    reasoning = sum(branch.blocks.reasoning_tokens(branch.ended.length) for branch in branches if branch.ended)
    return {
        "input_tokens": summed["prompt_tokens"],
        "input_tokens_details": {**summed["prompt_tokens_details"], "cache_write_tokens": 0},
        "output_tokens": summed["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": summed["total_tokens"],
    }


def _error(error: SRBError) -> JSONObject:
    code = (
        "rate_limit_exceeded"
        if error.http_status == 429
        else "invalid_prompt"
        if error.http_status < 500
        else "server_error"
    )
    return cast(JSONObject, {"code": code, "message": error.message, "type": error.type})
