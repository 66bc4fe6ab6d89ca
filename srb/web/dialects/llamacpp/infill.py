"""The prompt of `POST /infill`: a file with a gap, preceded by other files, in the form that models are trained on.

    [rep]myproject⏎ [sep]name⏎text … [sep]filename⏎ [pre]prefix, prompt [suf]suffix [mid]

Source: `format_prompt_infill` in llama.cpp's server-common.cpp, after https://arxiv.org/pdf/2409.12186.
"""

from srb.config.settings import Settings
from srb.errors import NotSupported
from srb.web.bodies.fields import Prompt
from srb.web.calls.engine_client import EngineClient
from srb.web.dialects.llamacpp.body import InfillBody
from srb.wire.events import ModelInfo

_SNIPPET = "\n\n--- snippet ---\n\n"  # between files, for models without a separator token


def check_infill(model: ModelInfo) -> None:
    """Raise NotSupported if the vocabulary lacks a fill-in-the-middle token."""
    if missing := missing_infill(model):
        raise NotSupported(f"Infill is not supported by this model: {missing}")


def missing_infill(model: ModelInfo) -> str:
    """Return which fill-in-the-middle tokens the vocabulary lacks, in words, or ""."""
    names = {"pre": "prefix", "suf": "suffix", "mid": "middle"}
    return "".join(f"{word} token is missing. " for name, word in names.items() if model.fim.get(name, -1) < 0)


def infill_prompt(
    client: EngineClient, model: ModelInfo, settings: Settings, body: InfillBody, max_tokens: int
) -> Prompt:
    """Return the prompt's tokens; `max_tokens` is the number of tokens to be generated, -1 if unknown.

    The text around the gap is cut to n_batch tokens, three quarters before the gap and one after it. Other files get the
    rest of the context, the last ones first.
    """

    def tokens(*parts: str | int) -> list[int]:
        return client.tokenize(parts, add_special=False, parse_special=False) if parts else []

    begun = client.tokenize([body.prompt], add_special=False) if body.prompt else []
    quarter = settings.n_batch // 4
    before = tokens(*body.input_prefix)[-3 * quarter :]
    after = tokens(*body.input_suffix)[: max(0, quarter - 2 - len(begun))]
    before = [model.fim["pre"], *before, *begun]
    after = [model.fim["suf"], *after]
    first, second = (after, before) if settings.spm_infill else (before, after)
    bos = [model.bos_id] if model.add_bos else []
    room = max(0, model.n_ctx_seq - settings.n_batch - 2 * max(0, max_tokens))
    extra = tokens(*_extra(model, body))
    return (*extra[max(0, len(extra) - room) :], *bos, *first, *second, model.fim["mid"])


def _extra(model: ModelInfo, body: InfillBody) -> list[str | int]:
    repository, separator = model.fim.get("rep", -1), model.fim.get("sep", -1)
    parts: list[str | int] = [repository, "myproject\n"] if repository >= 0 else []
    for name, text in body.input_extra:
        parts += [separator, f"{name}\n", text] if separator >= 0 else [_SNIPPET, text]
    return [*parts, separator, "filename\n"] if separator >= 0 else parts
