"""What is done with a command before the decode thread sees it: tokens, limits, samplers. Safe from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from srb.engine.grammar import check_grammar
from srb.engine.json_schema import check_schema
from srb.engine.model import Model, Sampler, StateStore
from srb.engine.request import Request
from srb.errors import ContextExceeded, SRBError, bad_field
from srb.protocol import Generate, SamplingParams

MAX_LOGIT_BIAS = 1024


class Preparer:
    """Turns commands into what the engine's core runs; refuses what native code would abort on."""

    def __init__(self, model: Model, states: StateStore | None) -> None:
        self._model = model
        self._states = states

    def tokenize(
        self, parts: Sequence[str | int], add_special: bool, parse_special: bool, field: str = "prompt"
    ) -> list[int]:
        """Return the tokens of strings and ids, in order; only a string at the beginning gets a BOS.

        Raise InvalidRequest, which names `field`, for an id that is not in the vocabulary.
        """
        tokens: list[int] = []
        for place, part in enumerate(parts):
            if isinstance(part, str):
                tokens += self._model.tokenize(part, add_special and place == 0, parse_special)
            else:
                self._check_token(part, field)
                tokens.append(part)
        return tokens

    def detokenize(self, tokens: Sequence[int]) -> list[bytes]:
        """Return each token's bytes, control tokens as their text. Raise InvalidRequest as `tokenize` does."""
        for token in tokens:
            self._check_token(token, "tokens")
        return [self._model.piece(token, special=True) for token in tokens]

    def request(self, command: Generate) -> Request:
        """Return the request, with a sampler for each branch, which whoever gets it must close.

        Raise InvalidRequest or ContextExceeded.
        """
        prompt = self.tokenize(command.prompt, command.add_special, parse_special=True)
        if not prompt:
            raise bad_field("prompt", "has no tokens; give at least one character")
        if len(prompt) >= self._model.n_ctx_seq:
            raise ContextExceeded(
                f"the prompt has {len(prompt)} tokens and the context holds {self._model.n_ctx_seq}, "
                "of which at least one must be left for the answer",
                n_prompt_tokens=len(prompt),
                n_ctx=self._model.n_ctx_seq,
            )
        samplers: list[Sampler] = []
        ready: dict[int, SamplingParams] = {}  # by the identity of what was asked: branches share it
        try:
            for spec in command.branches:
                if id(spec.sampling) not in ready:
                    ready[id(spec.sampling)] = self._checked(spec.sampling)
                params = ready[id(spec.sampling)]
                samplers.append(self._model.new_sampler(params, spec.seed, prompt, spec.min_tokens))
        except SRBError:
            for sampler in samplers:
                sampler.close()
            raise
        saved = self._states.load(command.state) if self._states and command.state else None
        return Request(command, prompt, samplers, saved)

    def _check_token(self, token: int, field: str) -> None:
        if not 0 <= token < self._model.n_vocab:
            there_are = f"0 to {self._model.n_vocab - 1}"
            raise bad_field(field, f"token id {token} is not in the vocabulary ({there_are})")

    def _checked(self, params: SamplingParams) -> SamplingParams:
        """Return what native code may see: a JSON schema has become a grammar."""
        if len(params.logit_bias) > MAX_LOGIT_BIAS:
            raise bad_field("logit_bias", f"has {len(params.logit_bias)} entries; at most {MAX_LOGIT_BIAS} are taken")
        for token, _ in params.logit_bias:
            if isinstance(token, int):
                self._check_token(token, "logit_bias")
        if params.grammar:
            check_grammar(params.grammar)
        elif params.json_schema:
            check_schema(params.json_schema)
            grammar = self._model.grammar_of(params.json_schema)
            check_grammar(grammar, "json_schema")
            return replace(params, grammar=grammar)
        return params
