"""What the llamacpp dialect's routes answer, as models: for /openapi.json and for tests; nothing here runs for a request."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from srb.web.answers import Answer, ErrorAnswer, ErrorObject, LikelyToken, PromptProgress, Timings, TokenProbs


class OldProb(Answer):
    tok_str: str
    prob: float


class Probabilities(TokenProbs):
    """llama-server's entry, with the names of 2024 beside: `content` is the token, `probs` the likeliest."""

    top_logprobs: list[LikelyToken] | None = None
    content: str
    probs: list[OldProb]


class Partial(Answer):
    """An event of a stream: what came of one branch in one step."""

    index: int
    content: str
    tokens: list[int]
    stop: Literal[False]
    id_slot: int
    tokens_predicted: int
    tokens_evaluated: int
    timings: Timings | None = None  # with timings_per_token
    completion_probabilities: list[Probabilities] | None = None  # with n_probs
    prompt_progress: PromptProgress | None = None  # with return_progress, while the prompt is computed


class Bias(Answer):
    bias: float | None
    token: int | str


class Scale(Answer):
    id: int
    scale: float


class SamplerSettings(Answer):
    """The parameters of sampling under llama-server's names, those of 2024 among them."""

    seed: int
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    top_k: int
    top_p: float
    min_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    typical_p: float
    repeat_last_n: int
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    ignore_eos: bool
    min_keep: int
    n_probs: int
    post_sampling_probs: bool
    samplers: list[str]
    max_tokens: int
    n_predict: int
    chat_format: str
    reasoning_format: str
    reasoning_in_content: bool
    generation_prompt: str
    speculative_types: str = Field(alias="speculative.types")
    backend_sampling: bool
    tfs_z: float
    penalize_nl: bool
    penalty_prompt_tokens: list[int]
    use_penalty_prompt_tokens: bool


class RequestSettings(SamplerSettings):
    stop: list[str]
    n_keep: int
    n_discard: int
    stream: bool
    timings_per_token: bool
    lora: list[Scale]


class GenerationSettings(RequestSettings):
    dry_sequence_breakers: list[str]
    n_indent: int
    t_max_predict_ms: int
    min_tokens: int
    logit_bias: list[Bias]
    grammar: str
    json_schema: str
    grammar_lazy: bool
    grammar_triggers: list[Any]
    preserved_tokens: list[int]
    n_ctx: int
    model: str


class Final(Answer):
    """The object that ends a branch; streamed, its content is empty."""

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
    completion_probabilities: list[Probabilities] | None = None  # with n_probs
    failure: ErrorObject | None = None  # of this branch, while others go on


LlamaAnswer = Final | list[Final]
LlamaEvent = Partial | Final | ErrorAnswer


class Piece(Answer):
    id: int
    piece: str | list[int]


class TokenList(Answer):
    tokens: list[int] | list[Piece]
    count: int
    length: int
    max_model_len: int


class Content(Answer):
    content: str


class Encoded(Answer):
    tokens: list[int]
    length: int


class Length(Answer):
    length: int


class Text(Answer):
    text: str


class OwnEmbedding(Answer):
    index: int
    embedding: list[list[float]]


class OpenAIEmbedding(Answer):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str
    encoding_format: Literal["base64"] | None = None


class InputUsage(Answer):
    prompt_tokens: int
    total_tokens: int


class EmbeddingList(Answer):
    object: Literal["list"]
    model: str
    data: list[OpenAIEmbedding]
    usage: InputUsage


class Ranked(Answer):
    index: int
    relevance_score: float


class RankedList(Answer):
    model: str
    object: Literal["list"]
    usage: InputUsage
    results: list[Ranked]


class TEIRanked(Answer):
    index: int
    score: float
    text: str | None = None


class NextToken(Answer):
    has_next_token: bool
    has_new_line: bool
    n_remain: int
    n_decoded: int


class Slot(Answer):
    """A sequence that a branch may use; the keys from `id_task` on are there while one does."""

    id: int
    n_ctx: int
    speculative: bool
    is_processing: bool
    state: Literal[0, 1]
    id_task: int | None = None
    index: int | None = None
    n_prompt_tokens: int | None = None
    n_prompt_tokens_processed: int | None = None
    n_prompt_tokens_cache: int | None = None
    params: SamplerSettings | None = None
    next_token: list[NextToken] | None = None


class Health(Answer):
    """While one step takes long, the counts are left out."""

    status: Literal["ok", "no slot available"]
    slots_idle: int | None = None
    slots_processing: int | None = None
    slots: list[Slot] | None = None


class Modalities(Answer):
    vision: bool
    video: bool
    audio: bool


class DefaultSettings(RequestSettings):
    params: RequestSettings
    n_ctx: int
    model: str


class Props(Answer):
    default_generation_settings: DefaultSettings
    total_slots: int
    model_alias: str
    model_ftype: str
    model_path: str
    modalities: Modalities
    media_marker: str
    endpoint_slots: bool
    endpoint_props: bool
    endpoint_metrics: bool
    ui: bool
    ui_settings: dict[str, Any]
    chat_template: str
    chat_template_caps: dict[str, bool]
    chat_template_tool_use: str | None = None
    bos_token: str
    eos_token: str
    build_info: str
    is_sleeping: bool
    cors_proxy_enabled: bool
    system_prompt: str
    user_name: str
    assistant_name: str


class SlotTimings(Answer):
    save_ms: float | None = None
    restore_ms: float | None = None


class SlotAction(Answer):
    id_slot: int
    n_erased: int | None = None
    filename: str | None = None
    n_saved: int | None = None
    n_written: int | None = None
    n_restored: int | None = None
    n_read: int | None = None
    timings: SlotTimings | None = None


class Adapter(Answer):
    id: int
    path: str
    scale: float
    task_name: str
    prompt_prefix: str


class Success(Answer):
    success: Literal[True]
