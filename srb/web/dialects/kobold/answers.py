"""Answer types of KoboldAI's and KoboldCpp's routes."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from srb.web.answers import shapes
from srb.wire.events import TokenProbs

FinishReason = Literal["stop", "length", "error"]


Detail = TypedDict("Detail", {"msg": str, "type": str})
KoboldError = TypedDict("KoboldError", {"detail": Detail})
Logprobs = TypedDict("Logprobs", {"content": list[TokenProbs]})


class GeneratedText(TypedDict):
    """The text of one branch; `prompt_tokens` are those of the prompt, which all branches share."""

    text: str
    finish_reason: FinishReason
    logprobs: Logprobs | None
    prompt_tokens: int
    completion_tokens: int
    seed: int


Results = TypedDict("Results", {"results": list[GeneratedText]})


class Token(TypedDict):
    """An event of a stream: new text, of several branches with the `index` of one. A branch's last says why it ended."""

    token: str
    finish_reason: FinishReason | None
    index: NotRequired[int]


class FailedStream(TypedDict):
    """The last event of a stream that fails."""

    token: str
    finish_reason: Literal["error"]
    detail: Detail


PendingText = TypedDict("PendingText", {"text": str})


class Pending(TypedDict):
    """The text so far of a running request, a result for each branch; one that is empty if nothing runs."""

    results: list[PendingText]


class Aborted(TypedDict):
    """Whether a request was aborted, in words."""

    success: Literal["true", "false"]
    done: Literal["true", "false"]


TokenCount = TypedDict("TokenCount", {"value": int, "ids": list[int]})
Detokenized = TypedDict("Detokenized", {"result": str, "success": bool})
Value = TypedDict("Value", {"value": int})
Result = TypedDict("Result", {"result": str})


class Features(TypedDict):
    """The version of KoboldCpp whose interface this is, and the features that the server has."""

    result: Literal["KoboldCpp"]
    version: str
    protected: bool
    llm: bool
    txt2img: bool
    vision: bool
    audio: bool
    transcribe: bool
    multiplayer: bool
    websearch: bool
    tts: bool
    embeddings: bool
    savedata: bool
    admin: int
    guidance: bool


class Performance(TypedDict):
    """Numbers of requests; KoboldCpp's figures of the last one are 0, since many run at once."""

    total_gens: int
    queue: int
    idle: int
    uptime: float
    hordeexitcounter: int
    stop_reason: int
    last_process: float
    last_eval: float
    last_token_count: int
    last_seed: int
    last_process_speed: float
    last_eval_speed: float
    quiet: bool


class PreloadedStory(TypedDict):
    """No story: the server has none for KoboldAI Lite."""


shapes(__name__)
