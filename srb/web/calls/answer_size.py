"""Memory of answers: the weight of events in bytes, and checks of the limit for one answer (8 × max_body_bytes).

Text is small, since the context bounds it. Log-probabilities are large: with 256 per token and 64 branches, every step
adds 8 MiB.
"""

from collections.abc import Sequence

from srb.errors import AnswerTooLarge
from srb.wire.codec import num_logprobs
from srb.wire.commands import BranchSpec, Generate
from srb.wire.events import Delta, PromptLogprobs

ENTRY_BYTES = 512  # of one log-probability: a Python dict (375 bytes measured) and its JSON
TOKEN_BYTES = 16  # of a token's text and its share of an event, about


def weight(event: Delta | PromptLogprobs) -> int:
    """Return the approximate memory of an event, in bytes."""
    size = ENTRY_BYTES * num_logprobs(event)
    return size + len(event.text) + TOKEN_BYTES * len(event.tokens) if type(event) is Delta else size


def token_weight(spec: BranchSpec) -> int:
    """Return the approximate memory of one token of a branch with its log-probabilities, in bytes."""
    return TOKEN_BYTES + ENTRY_BYTES * _entries(spec)


def check_completions(commands: Sequence[Generate], n_ctx_seq: int, limit: int) -> None:
    """Raise AnswerTooLarge if the branches' log-probabilities can exceed `limit` bytes.

    Branches without max_tokens are not counted, since their length is unknown. `n_ctx_seq` is the length of the context.
    """
    specs = [spec for command in commands for spec in command.branches * _times(command)]
    shifts = any(command.shift for command in commands)
    entries = sum(
        _entries(spec) * (spec.max_tokens if shifts else min(spec.max_tokens, n_ctx_seq))
        for spec in specs
        if spec.max_tokens > 0
    )
    if entries * ENTRY_BYTES > limit:
        raise AnswerTooLarge(
            f"Field 'logprobs': {len(specs)} branches (n) with max_tokens {max(spec.max_tokens for spec in specs)} and "
            f"{max(map(_entries, specs))} log-probabilities per token need {entries * ENTRY_BYTES} bytes of memory; an "
            f"answer that is not streamed may have {limit} (8 × max_body_bytes): ask for less, or for a stream",
            param="logprobs",
        )


def echoed_bytes(command: Generate, prompt_tokens: int) -> int:
    """Return the approximate memory of the prompt's log-probabilities, in bytes; each branch's answer contains them."""
    if not command.prompt_logprobs:
        return 0
    if command.surprise_from >= 0:  # a token has at least a byte; the first one may begin before
        known = "".join(map(str, command.prompt))[command.surprise_from :]
        prompt_tokens = min(prompt_tokens, 1 + len(known.encode()))
    entries = 1 + command.prompt_top if command.prompt_top >= 0 else sum(map(_entries, command.branches))
    return ENTRY_BYTES * prompt_tokens * entries


def check_echo(commands: Sequence[Generate], prompt_tokens: dict[str, int], limit: int) -> None:
    """Raise AnswerTooLarge if the prompts' log-probabilities exceed `limit` bytes, also for a stream."""
    size = sum(echoed_bytes(command, prompt_tokens[command.request_id]) for command in commands)
    if size > limit and any(command.surprise_from >= 0 for command in commands):
        raise AnswerTooLarge(
            f"Field 'texts': the log-probabilities of their tokens need up to {size} bytes of memory; 8 × max_body_bytes is "
            f"{limit}: ask for fewer texts or top_logprobs",
            param="texts",
        )
    if size > limit:
        name = "prompt_logprobs" if commands[0].prompt_top >= 0 else "echo"
        raise AnswerTooLarge(
            f"Field '{name}': the log-probabilities of {sum(prompt_tokens.values())} prompt tokens in each of n branches "
            f"need {size} bytes of memory; 8 × max_body_bytes is {limit}: ask for fewer logprobs or branches, or leave out "
            f"{name}",
            param=name,
        )


def grown_too_large(limit: int, held_back: bool = False) -> AnswerTooLarge:
    """Return the error for an answer that exceeds the limit while it is gathered, or while a stream holds it back."""
    if held_back:
        return AnswerTooLarge(
            f"The branches among which best_of chooses exceed {limit} bytes (8 × max_body_bytes): ask for fewer of them "
            "(best_of), fewer tokens (max_tokens) or log-probabilities (logprobs)"
        )
    return AnswerTooLarge(
        f"The answer exceeds {limit} bytes (8 × max_body_bytes): ask for fewer branches (n), tokens (max_tokens) or "
        "log-probabilities (logprobs), or for a stream"
    )


def _times(command: Generate) -> int:
    """Return how many branches each of a command's may become."""
    return command.explore.max_branches if command.explore is not None else 1


def _entries(spec: BranchSpec) -> int:
    """Return the number of log-probabilities per token."""
    return 1 + spec.sampling.n_probs if spec.sampling.n_probs >= 0 else 0
