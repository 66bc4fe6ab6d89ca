"""The fields of vLLM's clients about tokens: a prompt's last ones, their log-probabilities, and the ids in an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from flask import request
from pydantic import model_validator

from srb.errors import bad_field
from srb.web.answers import JSONObject
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.fields import INT32_MAX, Integer, Prompt, between
from srb.web.bodies.sampling import ProbCount
from srb.web.context import web
from srb.wire.commands import Generate
from srb.wire.events import BranchEnded, FinishReason, TokenProbs


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The token ids in an answer: `tokens`, llama-server's, or `token_ids`, vLLM's, with those of each command's prompt."""

    has_tokens: bool = False
    prompts: tuple[list[int], ...] | None = None

    def __bool__(self) -> bool:
        return self.has_tokens or self.prompts is not None

    def of(self, tokens: Sequence[int], ended: BranchEnded | None = None) -> JSONObject:
        """Return the keys of a choice with these tokens, and with the end of the text, which only vLLM's list has."""
        found: JSONObject = {"tokens": tokens} if self.has_tokens else {}
        if self.prompts is not None:
            end = ended is not None and ended.reason == FinishReason.EOS and ended.end_token is not None
            found["token_ids"] = [*tokens, *([ended.end_token] if ended is not None and end else [])]
        return found

    def of_prompt(self, command: int) -> JSONObject:
        """Return the keys of the ids of a command's prompt."""
        return {} if self.prompts is None else {"prompt_token_ids": self.prompts[command]}


NO_IDS = TokenIds()


# Fields of others that would make another answer, and no part of this one.
_REFUSED = {
    "audio": "is not supported; answers are text",
    "function_call": "is the form of 2023; send 'tool_choice', and read 'tool_calls' in the answer",
    "functions": "is the form of 2023; send 'tools', and read 'tool_calls' in the answer",
    "mcp_servers": "is not supported: this server calls no other; offer their tools as 'tools'",
    "prompt_embeds": "is not supported; send text or token ids",
    "use_beam_search": "is not supported; 'n' branches are sampled, and 'explore' walks along the likeliest tokens",
}


class TokenFields(CompletionBody):
    """vLLM's fields of completions and of chats."""

    truncate_prompt_tokens: Annotated[Integer, between(1, INT32_MAX)] | None = None
    truncation_side: Literal["left", "right"] = "left"
    prompt_logprobs: ProbCount | None = None
    return_token_ids: bool = False

    @model_validator(mode="before")
    @classmethod
    def _without_refused(cls, body: Any) -> Any:
        given = body if isinstance(body, dict) else {}
        for name, problem in _REFUSED.items():
            if given.get(name):
                raise bad_field(name, problem)
        if isinstance(kinds := given.get("modalities"), list) and "audio" in kinds:
            raise bad_field("modalities", _REFUSED["audio"])
        return body

    def check_tokens(self, stream: bool) -> None:
        """Raise InvalidRequest for log-probabilities of a prompt that have no place in the answer."""
        if self.prompt_logprobs is not None and stream:
            raise bad_field("prompt_logprobs", "is not available in a stream")
        if self.prompt_logprobs is not None and getattr(self, "echo", False) and self.wanted_probs >= 0:
            raise bad_field("prompt_logprobs", "cannot be used together with echo and logprobs, which have them")

    def truncated(self, prompt: Prompt) -> Prompt:
        """Return the last tokens of a prompt, or its first, as many as `truncate_prompt_tokens` says; the BOS stays."""
        most = self.truncate_prompt_tokens
        if most is None:
            return prompt
        if self.has_directions or getattr(self, "suffix", None):
            name = "directions" if self.has_directions else "suffix"
            raise bad_field("truncate_prompt_tokens", f"cannot be used together with {name}")
        tokens = _tokens(prompt, "truncate_prompt_tokens")
        if len(tokens) <= most:
            return prompt
        if self.truncation_side == "right":
            return tuple(tokens[:most])
        begins = isinstance(prompt[0], str) and web().client.check_ready().add_bos
        return (*tokens[:begins], *tokens[len(tokens) - most + begins :])

    def scored(self, commands: list[Generate]) -> list[Generate]:
        """Return commands that ask for the log-probabilities of their prompts, if the body does."""
        if self.prompt_logprobs is None:
            return commands
        return [replace(each, prompt_logprobs=True, prompt_top=self.prompt_logprobs) for each in commands]

    def token_ids(self, commands: Sequence[Generate]) -> TokenIds:
        """Return the token ids that the answer has; the engine is asked for those of the prompts."""
        if not self.return_token_ids:
            return TokenIds(self.return_tokens)
        branches = (branch for each in commands for branch in each.branches)
        if any(branch.direction or branch.append or branch.token_healing for branch in branches):
            others = "directions, append and token_healing, with which a branch reads another prompt"
            raise bad_field("return_token_ids", f"cannot be used together with {others}")
        return TokenIds(self.return_tokens, tuple(_tokens(each.prompt, "return_token_ids") for each in commands))


def _tokens(prompt: Prompt, field: str) -> list[int]:
    if any(isinstance(part, int) and part < 0 for part in prompt):
        raise bad_field(
            field, "cannot be used together with pictures and sounds, which are no tokens of the vocabulary"
        )
    return web().client.tokenize(prompt, add_special=True, asker=web().calls.asker(request.environ))


def prompt_logprobs(probs: Sequence[TokenProbs]) -> list[JSONObject | None]:
    """Return the log-probabilities of a prompt's tokens as vLLM has them: by their ids, the token's own first.

    The first token has none.
    """
    return [_ranked(entry) if entry.get("logprob") is not None else None for entry in probs]


def _ranked(entry: TokenProbs) -> JSONObject:
    own = {"logprob": entry["logprob"], "rank": entry["rank"], "decoded_token": entry["token"]}
    others = {
        str(top["id"]): {"logprob": top["logprob"], "rank": rank, "decoded_token": top["token"]}
        for rank, top in enumerate(entry["top_logprobs"], 1)
    }
    return {str(entry["id"]): own, **others, str(entry["id"]): own}
