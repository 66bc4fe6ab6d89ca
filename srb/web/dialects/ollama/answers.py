"""Answer types of Ollama's routes. Durations are in nanoseconds.

A request for several branches is an extension: then each line of a stream has the `index` of its branch, and an answer that
is not streamed has all of them in `branches`.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import JSONObject, shapes
from srb.wire.events import TokenProbs

Capability = Literal["completion", "tools", "insert", "thinking", "vision", "embedding"]
DoneReason = Literal["stop", "length", "error", "load", "unload"]


OllamaError = TypedDict("OllamaError", {"error": str})
CalledFunction = TypedDict("CalledFunction", {"index": int, "name": str, "arguments": JSONObject})
ToolCall = TypedDict("ToolCall", {"id": str, "function": CalledFunction})
Message = TypedDict("Message", {
    "role": Literal["assistant"], "content": str, "thinking": NotRequired[str],
    "tool_calls": NotRequired[list[ToolCall]],
})  # fmt: skip


class Said(TypedDict, total=False):
    """New or whole text: `response` and `thinking` of a completion, `message` of a chat."""

    response: str
    thinking: str
    message: Message


class Metrics(TypedDict, total=False):
    """Counts of tokens, over all branches together, and durations; `load_duration` is what the call waited for its model."""

    total_duration: int
    load_duration: int
    prompt_eval_count: int
    prompt_eval_duration: int
    eval_count: int
    eval_duration: int


class BranchEnd(TypedDict, total=False):
    """The end of a branch. `context` has the tokens of prompt and text, of /api/generate without `raw`."""

    index: int
    done_reason: DoneReason
    context: list[int]
    seed: int
    failure: str  # with done_reason "error", if other branches have not failed


class WholeBranch(Said, BranchEnd):
    """One of several branches in an answer that is not streamed."""

    logprobs: NotRequired[list[TokenProbs]]
    eval_count: NotRequired[int]


class OllamaLine(Said, BranchEnd, Metrics):
    """A line of a stream, or an answer that is not streamed: then `done` is true."""

    model: str
    created_at: str
    done: bool
    logprobs: NotRequired[list[TokenProbs]]
    branches: NotRequired[list[WholeBranch]]


Details = TypedDict("Details", {
    "parent_model": str, "format": str, "family": str, "families": list[str], "parameter_size": str,
    "quantization_level": str, "context_length": NotRequired[int],
})  # fmt: skip


class TaggedModel(TypedDict):
    """A model of a list; `digest` differs from model to model, and is no checksum of the file."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: Details
    capabilities: NotRequired[list[Capability]]


Tags = TypedDict("Tags", {"models": list[TaggedModel]})


class LoadedModel(TypedDict):
    """The model in memory; it never expires, and `size_vram` is not known here: 0."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: str
    size_vram: int
    context_length: int


Loaded = TypedDict("Loaded", {"models": list[LoadedModel]})


class Shown(TypedDict):
    """The model's facts; `template` is the chat template as Jinja text, `parameters` has the server's defaults."""

    license: str
    modelfile: str
    parameters: str
    template: str
    details: Details
    model_info: dict[str, Any]
    capabilities: list[Capability]
    modified_at: str


Version = TypedDict("Version", {"version": str})


class Embedded(TypedDict):
    """Vectors of length 1, one of each input."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class EmbeddedPrompt(TypedDict):
    """The vector of one text, as the model gives it."""

    embedding: list[float]


class Pulled(TypedDict):
    """The end of a pull: the model is there."""

    status: Literal["success"]


shapes(__name__)
