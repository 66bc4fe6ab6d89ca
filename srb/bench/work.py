"""Work and Measure: one request of a benchmark, and its result."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """One request: `n` branches of `tokens` tokens each, after `prompt`; end of text is ignored."""

    prompt: str
    n: int
    tokens: int
    cache_prompt: bool = False


@dataclass(frozen=True)
class Measure:
    """The tokens of all branches, and seconds from the request to its first token and to its last."""

    tokens: int
    seconds: float
    first_token: float
    prompt_tokens: int = 0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds
