"""Prompts cut to a length: text is dropped at the prompt's beginning, behind the memory, which stays."""

from srb.web.bodies.fields import EMPTY_PROMPT, Prompt
from srb.web.calls.engine_client import EngineClient
from srb.wire.events import ModelInfo

_ADDED = 4  # tokens that a tokenizer may put around a text: a BOS, a space
_FEW = 16


def fitted(
    client: EngineClient, model: ModelInfo, memory: str, prompt: str, n_ctx: int, max_tokens: int
) -> tuple[Prompt, int]:
    """Return memory and prompt as a prompt that leaves room for `max_tokens`, and the number of tokens to generate.

    `n_ctx` is the length of both together, in tokens. A fifth of it is the prompt's, however many tokens are asked for;
    `max_tokens` -1 is any number, and as many have room as the prompt leaves.
    """
    least = max(min(n_ctx - 4, _FEW), n_ctx // 5)
    max_tokens = min(max_tokens, n_ctx - least)
    room = n_ctx - (max_tokens if max_tokens >= 0 else least)
    texts = tuple(filter(None, (memory, prompt)))
    if sum(len(text.encode()) for text in texts) + _ADDED <= room:  # no token is shorter than a byte
        return texts or EMPTY_PROMPT, max_tokens
    kept, rest = (client.tokenize((text,)) if text else [] for text in (memory, prompt))
    bos = [model.bos_id] if model.add_bos else []
    if len(bos) + len(kept) + len(rest) <= room:
        return texts, max_tokens
    kept = _last(kept, room - len(bos) - _ADDED)
    rest = _last(rest, room - len(bos) - len(kept))
    return (*bos, *kept, *rest), max_tokens


def _last(tokens: list[int], count: int) -> list[int]:
    return tokens[max(0, len(tokens) - max(0, count)) :]
