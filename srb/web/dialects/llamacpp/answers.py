"""Answer types of the llamacpp dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from srb.config.sampling_params import PARAMETERS
from srb.web.answers import ErrorAnswer, ErrorObject, JSONObject, PromptProgress, Ranking, Timings, shapes
from srb.wire.events import TokenProbs

OldProb = TypedDict("OldProb", {"tok_str": str, "prob": float})


class Probabilities(TokenProbs):
    """llama-server's entry of a token, with the keys of 2024: `content` is the token, `probs` are the most likely ones."""

    content: str
    probs: list[OldProb]


class Partial(TypedDict):
    """An event of a stream: the new text of one branch in one step."""

    index: int
    content: str
    tokens: list[int]
    stop: Literal[False]
    id_slot: int
    tokens_predicted: int
    tokens_evaluated: int
    timings: NotRequired[Timings]  # with timings_per_token
    completion_probabilities: NotRequired[list[Probabilities]]  # with n_probs
    prompt_progress: NotRequired[PromptProgress]  # with return_progress, while the prompt is computed


Bias = TypedDict("Bias", {"bias": float | None, "token": int | str})
Scale = TypedDict("Scale", {"id": int, "scale": float})


# The sampling parameters that are numbers or switches, under llama-server's names; no code reads one of them by its name.
if TYPE_CHECKING:

    class Plain(TypedDict):
        pass
else:
    Plain = TypedDict("Plain", {name: each.type for name, each in PARAMETERS.items() if each.is_plain})


Constant = TypedDict("Constant", {
    "chat_format": str, "reasoning_format": str, "reasoning_in_content": bool, "generation_prompt": str,
    "backend_sampling": bool, "tfs_z": float, "penalize_nl": bool,
})  # fmt: skip
Drafts = TypedDict("Drafts", {"speculative.types": str})


class Sampling(Plain, Constant, Drafts):
    samplers: tuple[str, ...]
    penalty_prompt_tokens: list[int]
    use_penalty_prompt_tokens: bool


class SamplerSettings(Sampling):
    """The sampling parameters under llama-server's names, with those of 2024."""

    seed: int
    max_tokens: int
    n_predict: int


class RequestSettings(SamplerSettings):
    stop: tuple[str, ...]
    n_keep: int
    n_discard: int
    stream: bool
    timings_per_token: bool
    lora: list[Scale]


class Forms(TypedDict):
    """The parameters that are no numbers or switches."""

    dry_sequence_breakers: tuple[str, ...]
    logit_bias: list[Bias]
    grammar: str
    json_schema: str
    grammar_lazy: bool
    grammar_triggers: list[Any]
    preserved_tokens: list[int]


class GenerationSettings(RequestSettings, Forms):
    n_indent: int
    stop_at: str
    stop_after: int
    t_max_predict_ms: int
    min_tokens: int
    n_ctx: int
    model: str


class Final(Ranking):
    """The object that ends a branch; in a stream its content is empty. The last one has the ranking."""

    index: int
    content: str
    tokens: list[int]
    id_slot: int
    stop: Literal[True]
    model: str
    tokens_predicted: int
    tokens_evaluated: int
    generation_settings: GenerationSettings
    prompt: str
    has_new_line: bool
    truncated: bool
    stop_type: Literal["none", "eos", "limit", "word"]
    stopping_word: str
    tokens_cached: int
    timings: Timings
    stopped_eos: bool
    stopped_limit: bool
    stopped_word: bool
    completion_probabilities: NotRequired[list[Probabilities]]  # with n_probs
    failure: NotRequired[ErrorObject]  # of this branch; the others continue


Selection = JSONObject  # the keys of Final that `response_fields` names

LlamaAnswer = Final | Selection | list[Final | Selection]
LlamaEvent = Partial | Final | ErrorAnswer


Piece = TypedDict("Piece", {"id": int, "piece": str | list[int]})
TokenList = TypedDict("TokenList", {
    "tokens": list[int] | list[Piece], "count": int, "length": int, "max_model_len": int,
})  # fmt: skip
Content = TypedDict("Content", {"content": str})
Encoded = TypedDict("Encoded", {"tokens": list[int], "length": int})
Length = TypedDict("Length", {"length": int})
Text = TypedDict("Text", {"text": str})


class CurrentModel(TypedDict):
    """The model as text-generation-webui tells of it; `lora_names` are those of the adapters with a scale."""

    model_name: str
    lora_names: list[str]
    loader: str


class TabbyParameters(TypedDict):
    """The limits of the model; `chunk_size` is the most tokens of a prompt in one step."""

    max_seq_len: int
    max_batch_size: int
    cache_size: int
    cache_mode: str
    chunk_size: int
    prompt_template: None
    prompt_template_content: str | None
    draft: None


class TabbyModel(TypedDict):
    """The model as TabbyAPI tells of it; the template has no name, and there is no draft model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    logging: None
    parameters: TabbyParameters


OwnEmbedding = TypedDict("OwnEmbedding", {"index": int, "embedding": list[list[float]]})
OpenAIEmbedding = TypedDict("OpenAIEmbedding", {
    "object": Literal["embedding"], "index": int, "embedding": list[float] | str,
    "encoding_format": NotRequired[Literal["base64"]],
})  # fmt: skip
InputUsage = TypedDict("InputUsage", {"prompt_tokens": int, "total_tokens": int})
EmbeddingList = TypedDict("EmbeddingList", {
    "object": Literal["list"], "model": str, "data": list[OpenAIEmbedding], "usage": InputUsage,
})  # fmt: skip
RankedText = TypedDict("RankedText", {"text": str})


class Ranked(TypedDict):
    index: int
    relevance_score: float
    document: NotRequired[RankedText]  # with return_documents


RankedList = TypedDict("RankedList", {
    "model": str, "object": Literal["list"], "usage": InputUsage, "results": list[Ranked],
})  # fmt: skip
TEIRanked = TypedDict("TEIRanked", {"index": int, "score": float, "text": NotRequired[str]})


class NextToken(TypedDict):
    """The state of one branch; a slot with all its keys has those of 2024, by which no branch in it has ended."""

    has_next_token: bool
    has_new_line: bool
    n_remain: int
    n_decoded: int
    stopped_eos: NotRequired[Literal[False]]
    stopped_limit: NotRequired[Literal[False]]
    stopped_word: NotRequired[Literal[False]]
    stopping_word: NotRequired[Literal[""]]


class SlotState(TypedDict):
    """The state of one slot; −1 and 0 where nothing runs."""

    id: int
    speculative: bool
    is_processing: bool
    state: Literal[0, 1]
    id_task: int
    index: int
    n_prompt_tokens: int
    n_prompt_tokens_processed: int
    n_prompt_tokens_cache: int
    prompt: Literal[""]
    next_token: list[NextToken]
    replica: NotRequired[str]  # of a cluster, where each replica numbers its own slots


class IdleSlot(SlotState):
    """A slot far down in the list where nothing runs; its parameters would be those of the first slots."""

    n_ctx: int
    model: str


class BusySlot(IdleSlot):
    """A slot far down in the list, with the parameters of what runs in it."""

    params: GenerationSettings


class FullSlot(SlotState, GenerationSettings):
    """A slot with its parameters, under `params` and at the top level as in 2024, when `id_task` was `task_id`."""

    task_id: int
    params: GenerationSettings


Slot = FullSlot | BusySlot | IdleSlot


class Health(TypedDict):
    """The server's health; the counts are left out while the engine computes a long step, the version in /livez."""

    status: Literal["ok", "no slot available"]
    version: NotRequired[str]
    slots_idle: NotRequired[int]
    slots_processing: NotRequired[int]
    slots: NotRequired[list[Slot]]
    replicas: NotRequired[int]  # of a cluster, that take requests
    degraded: NotRequired[str]  # why a cluster's list of replicas may be old, or which one on it cannot be used


Modalities = TypedDict("Modalities", {"vision": bool, "video": bool, "audio": bool})


class DefaultSettings(GenerationSettings):
    params: GenerationSettings


Props = TypedDict("Props", {
    "default_generation_settings": DefaultSettings, "total_slots": int, "model_alias": str, "model_ftype": str,
    "model_path": str, "modalities": Modalities, "media_marker": str, "endpoint_slots": bool, "endpoint_props": bool,
    "endpoint_metrics": bool, "ui": bool, "ui_settings": dict[str, Any], "chat_template": str,
    "chat_template_caps": dict[str, bool], "chat_template_tool_use": NotRequired[str], "bos_token": str,
    "eos_token": str, "build_info": str, "srb_version": str, "is_sleeping": bool, "cors_proxy_enabled": bool,
    "deterministic": bool, "nondeterminism": str, "system_prompt": str, "user_name": str, "assistant_name": str,
})  # fmt: skip
SlotTimings = TypedDict("SlotTimings", {"save_ms": NotRequired[float], "restore_ms": NotRequired[float]})
SlotAction = TypedDict("SlotAction", {
    "id_slot": int, "n_erased": NotRequired[int], "filename": NotRequired[str], "n_saved": NotRequired[int],
    "n_written": NotRequired[int], "n_restored": NotRequired[int], "n_read": NotRequired[int],
    "timings": NotRequired[SlotTimings],
})  # fmt: skip
Adapter = TypedDict("Adapter", {"id": int, "path": str, "scale": float, "task_name": str, "prompt_prefix": str})
Success = TypedDict("Success", {"success": Literal[True]})

shapes(__name__)
