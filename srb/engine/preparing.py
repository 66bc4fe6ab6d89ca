"""What is done with a command before the decode thread sees it: tokens, limits, samplers. Safe from any thread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from srb.engine.embedding import POOLINGS, EmbeddingJob, count_numbers
from srb.engine.grammar import check_grammar
from srb.engine.json_schema import check_schema
from srb.engine.model import Model, Sampler, Scales, StateStore
from srb.engine.request import Request
from srb.engine.state_actions import StateJob, check_action
from srb.errors import ContextExceeded, NotSupported, SRBError, bad_field
from srb.protocol import Embed, Generate, Rerank, SamplingParams, StateAction

MAX_LOGIT_BIAS = 1024
MAX_NUMBERS = 2_000_000  # in one answer, which crosses the wire as text


class Preparer:
    """Turns commands into what the engine's core runs; refuses what native code would abort on."""

    def __init__(self, model: Model, states: StateStore | None) -> None:
        self._model = model
        self._states = states
        self.lora: Scales = tuple(adapter.scale for adapter in model.adapters)  # of requests that name none

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
        if not self._model.can_generate:
            raise NotSupported("This model makes embeddings and cannot continue a text")
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
        if command.shift is not None and (command.shift.n_keep < -1 or command.shift.n_discard < 0):
            raise bad_field("n_keep", "should be -1 or more, and n_discard 0 or more")
        lora = self.lora if command.lora is None else self.scales(command.lora)
        samplers: list[Sampler] = []
        ready: dict[int, SamplingParams] = {}  # by the identity of what was asked: branches share it
        try:
            for spec in command.branches:
                if id(spec.sampling) not in ready:
                    ready[id(spec.sampling)] = self._checked(spec.sampling)
                params = ready[id(spec.sampling)]
                samplers.append(self._model.new_sampler(params, spec.seed, self._past(params, prompt), spec.min_tokens))
        except SRBError:
            for sampler in samplers:
                sampler.close()
            raise
        saved = self._states.load(command.state) if self._states and command.state else None
        return Request(command, prompt, samplers, saved if saved and saved.lora == lora else None, lora)

    def _past(self, params: SamplingParams, prompt: list[int]) -> list[int]:
        """Return the tokens that the penalties look at before there are any of the branch's own."""
        if params.penalty_prompt is None:
            return prompt
        return self.tokenize(params.penalty_prompt, add_special=False, parse_special=True, field="penalty_prompt")

    def count_special(self, prompt: Sequence[int]) -> int:
        """Return 1 where a prompt begins with the token that the vocabulary puts before texts, else 0."""
        return int(list(prompt[:1]) == self._model.tokenize("", add_special=True, parse_special=False)[:1])

    def scales(self, given: Iterable[tuple[int, float]]) -> Scales:
        """Return the scale of every adapter, 0 for those that are not named. Raise InvalidRequest."""
        scales = [0.0] * len(self._model.adapters)
        for adapter, scale in given:
            if not 0 <= adapter < len(scales):
                raise bad_field("lora", f"there is no adapter of id {adapter}")
            if not math.isfinite(scale):
                raise bad_field("lora", f"the scale of adapter {adapter} is not a finite number")
            scales[adapter] = float(scale)
        return tuple(scales)

    def embedding(self, command: Embed | Rerank) -> EmbeddingJob:
        """Return the job of an Embed or Rerank command. Raise NotSupported or InvalidRequest."""
        if isinstance(command, Rerank):
            if not self._model.can_rank:
                raise NotSupported("This server does not support reranking. Start it with `--reranking`")
            pairs = [self._model.pair(command.query, document) for document in command.documents]
            return EmbeddingJob(command.request_id, "rank", self._checked_inputs(pairs, "documents"), lora=self.lora)
        if not self._model.can_embed:
            raise NotSupported("This server does not support embeddings. Start it with `--embeddings`")
        pooling = command.pooling or self._model.pooling
        if pooling == "rank" and not command.pooling:
            raise NotSupported("This model ranks documents and makes no embeddings")
        if pooling not in POOLINGS:
            raise bad_field("pooling", f"should be one of {', '.join(POOLINGS)}")
        texts = [self.tokenize(parts, add_special=True, parse_special=True, field="input") for parts in command.inputs]
        inputs = self._checked_inputs(texts, "input")
        if count_numbers(inputs, pooling, self._model.n_embd) > MAX_NUMBERS:
            raise bad_field("input", f"asks for more than {MAX_NUMBERS} numbers; send fewer at once")
        return EmbeddingJob(command.request_id, "embed", inputs, pooling, self.lora)

    def state_job(self, command: StateAction) -> StateJob:
        """Return the job of a StateAction command, with its file read. Raise InvalidRequest."""
        check_action(command.action, command.name, command.slot)
        from_disk = self._states is not None and command.action == "restore"
        saved = self._states.load(command.name) if self._states is not None and from_disk else None
        return StateJob(command.request_id, command.action, command.name, command.slot, saved)

    def _checked_inputs(self, inputs: list[list[int]], field: str) -> list[list[int]]:
        most = self._model.n_embed_tokens
        for tokens in inputs:
            if not 0 < len(tokens) <= most:
                problem = (
                    f"is too large to process: {len(tokens)} tokens, and the physical batch size (n_ubatch) is {most}"
                )
                raise bad_field(field, problem if tokens else "has no tokens; give at least one character")
        if not inputs:
            raise bad_field(field, "should not be empty")
        return inputs

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
