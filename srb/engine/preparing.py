"""Preparation of commands before the decode thread runs them: tokens, limits, samplers. Safe from any thread."""

import json
import logging
import math
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from srb.config.sampling_params import MAX_BIASES, SamplingParams
from srb.engine.branch_specs import check_branches
from srb.engine.directions import Directed, check_place, num_shared, parts_with
from srb.engine.diversity import check_diversity
from srb.engine.embedding import POOLINGS, EmbeddingJob, count_numbers, truncated
from srb.engine.exploring import Biases, Exploration, check_exploring
from srb.engine.grammar.gbnf import preceded
from srb.engine.grammar.languages import rule_of
from srb.engine.grammar.schemas import prepared, tool_of
from srb.engine.healing import Ending, Pieces, key_of, num_removed
from srb.engine.known_texts import KnownTexts, RunTooLong, any_count, check_run
from srb.engine.media import MediaFiles, MediaRun
from srb.engine.model import LoraScales, Model, Mood, Sampler, SavedState, Scope, StateStore
from srb.engine.request import Request
from srb.engine.sampling import chain
from srb.engine.state_actions import StateJob, check_action
from srb.engine.tokens import Tokens, common_length, ids_of, is_media, tokens_of, without_media
from srb.errors import ContextExceeded, InvalidRequest, NotSupported, bad_field
from srb.files.media_files import MediaKind
from srb.progress import IsWanted, always, go_on
from srb.wire.commands import (
    MAX_VECTOR_SCALE,
    BranchSpec,
    ControlVectors,
    CountTokens,
    Embed,
    Explore,
    Generate,
    Rerank,
    StateAction,
)

log = logging.getLogger("srb.engine")

# over all branches; a breaker that many tokens contain takes 1 MiB of each branch's sampler
MAX_DRY_BREAKERS = 512
MAX_PREPARED = 512  # JSON schemas that are kept as they were prepared: every turn of a chat has the same tools
MAX_TOLD = 8  # places of a request's schemas in one line of the log: a client must not write it full
KINDS = ("string", "number", "integer", "boolean", "null", "array", "object")
MAX_REMEMBERED = 2**26  # tokens over all branches' penalties; each takes 4 to 8 bytes from the start
MAX_NUMBERS = 2_000_000  # in one reply, which crosses the socket as text: 20 bytes each fit a frame
COUNTED_BYTES = 2**16  # of a text that cannot fit, whose tokens are counted for the error; more are not read
MAX_LISTED = 2_000_000  # tokens of a text in one reply; no context has as many, and lists take some 40 bytes for each


BranchBeginning = tuple[str, tuple[str | int, ...], ControlVectors | None]


class Preparer:
    """Commands turned into requests and jobs; input on which native code would abort is refused."""

    def __init__(
        self,
        model: Model,
        states: StateStore | None,
        is_in_memory: Callable[[str], bool] = lambda name: False,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Load from `states` the states that are not in memory. Any thread may call `is_in_memory` and `clock`."""
        self._model = model
        self._states = states
        self._is_in_memory = is_in_memory
        self._texts = KnownTexts(model)
        self._pieces = Pieces(model)
        self.media = MediaFiles(model.encoder, clock=clock)
        self._has_logged_biases = False
        self.lora: LoraScales = tuple(adapter.scale for adapter in model.adapters)  # scales of requests that name none
        vectors = model.control_vectors
        self._vectors = {name: vector.key for vector in vectors for name in (vector.name, vector.key)}
        self._mood: Mood = _mood({vector.key: vector.scale for vector in vectors})  # of requests that name none

    def tokenize(
        self, parts: Sequence[str | int], add_special: bool, parse_special: bool, field: str = "prompt"
    ) -> list[int]:
        """Return the tokens of strings and ids, in order; only a string at the beginning gets a BOS.

        Raise InvalidRequest, which names `field`, for an id outside the vocabulary, and for a text that is too long.
        """

        def check(count: int) -> None:
            if count > MAX_LISTED:
                raise bad_field(field, f"has more than {MAX_LISTED} tokens; send parts of it")

        tokens = self._tokens(parts, add_special, parse_special, field, check)
        check(len(tokens))
        return tokens.tolist()

    def _tokens(
        self,
        parts: Sequence[str | int],
        add_special: bool,
        parse_special: bool,
        field: str,
        check: Callable[[int], None],
    ) -> Tokens:
        """Return the tokens of `tokenize` as an array; `check` gets their number after each piece, and may raise."""
        if (ids := ids_of(parts)) is not None and self._are_known(ids):
            return ids
        tokens = tokens_of(())

        def check_all(count: int) -> None:
            check(len(tokens) + count)  # with those of the parts before

        for place, part in enumerate(parts):
            if isinstance(part, str):
                tokens += self._read(part, add_special and place == 0, parse_special, field, check_all)
            else:
                self._check_token(part, field)
                tokens.append(part)
        return tokens

    def _read(
        self, text: str, add_special: bool, parse_special: bool, field: str, check: Callable[[int], None] = any_count
    ) -> Tokens:
        """Return the tokens of one string. Raise InvalidRequest, which names `field`, and what `check` raises."""
        try:
            tokens = self._texts.tokenize(text, add_special, parse_special, check)
        except RunTooLong as error:
            raise bad_field(field, str(error)) from None
        bos = self._model.bos_id
        if add_special and parse_special and bos >= 0 and list(tokens[:2]) == [bos, bos]:
            _warn("a prompt brings the token that begins texts (BOS) itself: it stands there once")
            return tokens[1:]  # a model has never read it twice, and writes other texts behind it
        return tokens

    def detokenize(self, tokens: Sequence[int], special: bool = True) -> list[bytes]:
        """Return each token's bytes; control tokens have none, or with `special` their text.

        Raise InvalidRequest for an id outside the vocabulary.
        """
        for token in tokens:
            self._check_token(token, "tokens")
        return [self._model.piece(token, special) for token in tokens]

    def request(self, command: Generate, is_wanted: IsWanted = always) -> Request:
        """Return the request, with a sampler for each branch; the caller must submit or close it.

        Raise InvalidRequest, ContextExceeded or NotSupported; Cancelled if its media are not encoded and it `is_wanted`
        no more.
        """
        command = self._with_moods(command)
        check_branches(command.branches)
        check_exploring(command)
        check_place(command)
        if not self._model.can_generate:
            raise NotSupported("This model only makes embeddings and cannot generate text")
        if str not in set(map(type, command.prompt)):
            self._check_fits("", len(command.prompt))
        self._check_fits("at least ", self._fewest_tokens(command.prompt, self._model.n_ctx_seq))
        if not command.prompt:
            raise bad_field("prompt", "should not be empty")
        prompt, media = self._prompt(command, is_wanted)
        is_blank = not prompt or command.prompt == ("",)
        if is_blank:
            prompt = self._blank_page()
        self._check_fits("", len(prompt))
        directed = None if command.place is None else self._directed(command, prompt, media, is_wanted)
        if command.media:
            command = replace(command, shift=None, media=())  # media cannot be cut
        if directed is not None:
            sent_prompt = prompt = directed.shared
        else:
            sent_prompt, prompt = prompt, prompt if is_blank else self._cut(command, prompt)
        removed = sent_prompt[len(prompt) :]
        lora = self.lora if command.lora is None else self.scales(command.lora)
        scope = Scope(lora, command.cache_salt, command.control_vectors or ())
        appended = self._given(command.branches, len(sent_prompt), directed)
        endings = self._endings(command, sent_prompt, removed, appended, scope, directed)
        given = [self.given_before(own, removed, ending) for own, ending in zip(appended, endings, strict=True)]
        if command.shift is not None and (command.shift.n_keep < -1 or command.shift.n_discard < 0):
            raise bad_field("n_keep", "should be -1 or more, and n_discard should be 0 or more")
        saved = self._saved(command.state) if command.state else None
        check_diversity(command)
        self.check_together(command.branches)
        samplers = self._samplers(command.branches, prompt, given)
        saved = saved if saved and saved.scope == scope else None
        preserved = self._preserved(command.preserved_tokens)
        request = Request(command, prompt, samplers, saved, lora, given, preserved, media, endings, removed, directed)
        if command.surprise_from >= 0:
            request.prefix.num_prompt_logprobs = self._num_before(command, sent_prompt)
        if command.explore is not None:
            request.explore(self._exploration(command.explore, command.branches[0]), command.explore)
        return request

    def _num_before(self, command: Generate, prompt: Tokens) -> int:
        """Return how many tokens of a prompt, one text, lie before the place from which surprise is asked for."""
        text = command.prompt[0]
        if len(command.prompt) > 1 or not isinstance(text, str):
            raise bad_field("surprise_from", "needs a prompt that is one text")
        if not command.surprise_from:
            return 0
        before = self._read(text[: command.surprise_from], command.add_special, True, "prompt")
        return common_length(before, prompt, 0)

    def _prompt(self, command: Generate, is_wanted: IsWanted) -> tuple[Tokens, list[MediaRun]]:
        """Return the tokens of a prompt, and where its media are. Raise what `request` does."""
        if command.media:
            return self._with_media(command, is_wanted)
        return self._tokens(command.prompt, command.add_special, True, "prompt", self._check_may_fit), []

    # ---- directions

    def _directed(self, command: Generate, prompt: Tokens, media: Sequence[MediaRun], is_wanted: IsWanted) -> Directed:
        """Return the shared prompt of branches with directions, and what each of them reads behind it.

        `prompt` has the tokens of the prompt without any. Raise InvalidRequest or ContextExceeded.
        """
        is_blank = command.prompt == ("",)
        texts = {"": prompt}
        head, cut = self._known_head(command)
        for direction in dict.fromkeys(spec.direction for spec in command.branches if spec.direction):
            parts = parts_with(command, direction)
            tail = self._texts.behind(str(parts[0])[cut - 1 :], True) if cut > 0 and len(parts) == 1 else None
            if tail is not None:
                texts[direction] = head + tail
            else:
                texts[direction] = self._prompt(replace(command, prompt=parts), is_wanted)[0]
        if not (count := num_shared(texts)):  # a text that begins with the direction begins as an empty page does
            page = self._blank_page()
            texts = {each: text if is_blank and not each else page + text for each, text in texts.items()}
            count = num_shared(texts)
        if any(run.end > count for run in media):
            raise bad_field("directions", "stand before the last paragraph, and a picture or sound stands behind that")
        for text in texts.values():
            self._check_fits("", len(text))
        behind = {direction: text[count:] for direction, text in texts.items()}
        return Directed(replace(command, branches=(), media=()), texts[""][:count], behind)

    def _known_head(self, command: Generate) -> tuple[Tokens, int]:
        """Return the tokens of a long text up to its last cut before directions, and where that is; -1: there is none.

        Of n directions, what stands before is tokenized once.
        """
        text, place = command.prompt[0], command.place
        assert place is not None
        cut = self._texts.last_cut(text, place.character) if isinstance(text, str) and not place.part else -1
        if cut < 0:
            return tokens_of(()), -1
        assert isinstance(text, str)
        return self._read(text[:cut], command.add_special, True, "prompt"), cut

    def directed(self, directed: Directed, direction: str) -> Tokens:
        """Return the tokens behind the shared prompt of a branch that is added. Raise InvalidRequest or ContextExceeded."""
        if direction in directed.behind:
            return directed.behind[direction]
        if any(isinstance(part, int) and part < 0 for part in directed.command.prompt):
            raise bad_field("direction", "should be one of the request's, whose prompt has pictures or sounds")
        command = replace(directed.command, prompt=parts_with(directed.command, direction))
        text, shared = self._prompt(command, always)[0], directed.shared
        if text[: len(shared)] != shared and self._model.blank_page:
            text = tokens_of(self._model.blank_page) + text
        if text[: len(shared)] != shared:
            raise bad_field("direction", "begins otherwise than those of the request, and shares too little with them")
        return text[len(shared) :]

    # ---- token healing

    def _cut(self, command: Generate, prompt: Tokens) -> Tokens:
        """Return a prompt without the tokens that branches compute: the last ones of a text if they heal it.

        Ids are taken as they are. Branches with a mood of their own compute the last token, so that their first one has it.
        """
        if not self._may_cut(command):
            return prompt
        moods = {spec.control_vectors for spec in command.branches}
        count = int(moods != {command.control_vectors} and len(prompt) > 1 and not is_media(prompt[-1]))
        is_healed = any(heals(spec) and not spec.append for spec in command.branches)
        if is_healed and isinstance(command.prompt[-1], str):
            count = max(count, num_removed(prompt, self._model))
        return prompt[: len(prompt) - count]

    def _may_cut(self, command: Generate) -> bool:
        """Whether a request's prompt may be computed without its end: not where only whole texts are found."""
        return self._model.supports_partial_reuse and command.explore is None and not command.prompt_logprobs

    def _endings(
        self,
        command: Generate,
        prompt: Tokens,
        removed: Tokens,
        given: Sequence[Sequence[int]],
        scope: Scope,
        directed: Directed | None,
    ) -> list[Ending | None]:
        """Return what each branch heals: alike for all that begin alike, by direction, `append` and mood."""
        found: dict[BranchBeginning, Ending | None] = {}
        for spec, own in zip(command.branches, given, strict=True):
            if (beginning := beginning_of(spec)) in found or not heals(spec):
                continue
            if directed is None and not spec.append:
                found[beginning] = self.ending_of_prompt(prompt, removed, scope, spec.control_vectors or ())
            else:
                parts = spec.append or (directed.last_of(spec.direction),) if directed else spec.append
                found[beginning] = self.ending(parts, own, removed)
        return [found[beginning_of(spec)] if heals(spec) else None for spec in command.branches]

    def ending_of_prompt(self, prompt: Tokens, removed: Tokens, scope: Scope, mood: Mood) -> Ending | None:
        """Return the end of a prompt, as it was sent, that branches of a mood heal; None if nothing was removed."""
        if not removed:
            return None
        return Ending(removed, self._pieces, self._model, key=key_of(prompt, removed, scope, mood))

    def ending(self, append: Sequence[str | int], given: Sequence[int], before: Tokens) -> Ending | None:
        """Return the end of an `append` that can be healed; None if there is none.

        `before` are the given tokens before it: the prompt's removed ones, or those of a fork's beginning.
        """
        if not append or not isinstance(append[-1], str) or not self._model.supports_partial_reuse:
            return None
        count = num_removed(given, self._model, least=0)
        own, last = tokens_of(given[: len(given) - count]), tokens_of(given[len(given) - count :])
        return Ending(last, self._pieces, self._model, before + own) if last else None

    @staticmethod
    def given_before(own: Sequence[int], before: Tokens, ending: Ending | None) -> Tokens:
        """Return the tokens that a branch is given: those before its `append` and in it, without those that it heals."""
        return before + tokens_of(own) if ending is None else ending.before

    def _preserved(self, texts: Sequence[str]) -> frozenset[int]:
        """Return the control tokens with these texts; a text that is no single token of the vocabulary has none."""
        found = (self._model.tokenize(text, add_special=False, parse_special=True) for text in texts)
        return frozenset(tokens[0] for tokens in found if len(tokens) == 1)

    def _with_media(self, command: Generate, is_wanted: IsWanted) -> tuple[Tokens, list[MediaRun]]:
        """Return the tokens of a prompt with media, and where these are; files that are not known are encoded.

        Raise InvalidRequest, ContextExceeded or NotSupported.
        """
        if command.prompt_logprobs:
            raise bad_field("prompt", "has media, whose log-probabilities do not exist; leave out those of the prompt")
        tokens, runs, pictures = tokens_of(()), list[MediaRun](), 0
        for part in self._parts(command.prompt, command.media, command.media_field, command.add_special):
            if isinstance(part, bytes):
                own = self.media.append_to(tokens, part, command.media_field, pictures, is_wanted)
                pictures += any(run.kind is MediaKind.IMAGE for run in own)  # its tiles are one
                runs += own
                self._check_fits("at least ", len(tokens))
            else:
                tokens.extend(part)
        for run in runs:
            if run.chunk.is_whole and len(run.chunk) > (most := min(self._model.n_ubatch, self._model.n_batch)):
                needs = f"takes {len(run.chunk)} tokens at once, and the physical batch size (n_ubatch) is {most}"
                raise bad_field(command.media_field, f"{needs}; start the server with a larger one")
        return tokens, runs

    def count_tokens(self, command: CountTokens) -> int:
        """Return the number of tokens of a prompt; its media are not encoded. Raise InvalidRequest or NotSupported."""
        if not self._model.can_generate:
            raise NotSupported("This model only makes embeddings and cannot generate text")
        field = command.media_field
        parts = self._parts(command.prompt, command.media, field, add_special=True)
        count = 0
        for part in parts:
            count += self.media.count(part, field, count) if isinstance(part, bytes) else len(part)
        return count

    def knows_media(self, command: Generate) -> bool:
        """Whether no medium of a request has to be encoded. Raise InvalidRequest or NotSupported."""
        field = command.media_field
        return all(self.media.knows(_file(text, field), field) for text in command.media)

    def _parts(
        self, prompt: Sequence[str | int], media: Sequence[str], field: str, add_special: bool
    ) -> Iterator[Sequence[int] | bytes]:
        """Yield the tokens of each part of a prompt, and the bytes of each file. Raise InvalidRequest."""
        files = [_file(text, field) for text in media]
        for place, part in enumerate(prompt):
            if isinstance(part, str):
                yield self._read(part, add_special and place == 0, True, "prompt")
            elif part >= 0:
                self._check_token(part, "prompt")
                yield [part]
            else:
                if not place and add_special:
                    yield self._model.tokenize("", add_special=True, parse_special=False)
                yield files[-1 - part]

    def _exploration(self, asked: Explore, spec: BranchSpec) -> Exploration:
        params = self._checked(spec.sampling)
        stops = tuple((token, None) for token in params.stop_token_ids)
        banned = replace(params, ignore_eos=True, logit_bias=(*params.logit_bias, *stops))
        early = self._model.biases(banned) if spec.min_tokens else {}
        return Exploration(asked, self._model, Biases.of(self._model.biases(params)), Biases.of(early))

    def _given(self, specs: Sequence[BranchSpec], num_prompt: int, directed: Directed | None) -> list[Tokens]:
        """Return the tokens of each branch behind the shared prompt: with its direction, and of its `append`.

        Raise InvalidRequest or ContextExceeded.
        """
        found: dict[tuple[str, tuple[str | int, ...]], Tokens] = {}
        for direction, parts in dict.fromkeys((spec.direction, spec.append) for spec in specs):
            behind = tokens_of(()) if directed is None else directed.behind[direction]
            appended = self.appended(parts, num_prompt + len(behind)) if parts else ()
            found[direction, parts] = behind + tokens_of(appended)
        return [found[spec.direction, spec.append] for spec in specs]

    def appended(self, parts: Sequence[str | int], num_before: int) -> list[int]:
        """Return the tokens of an `append` behind so many others. Raise InvalidRequest or ContextExceeded."""
        self._check_fits("at least ", num_before + self._fewest_tokens(parts, self._model.n_ctx_seq - num_before))
        tokens = self._tokens(parts, False, True, "append", lambda count: self._check_may_fit(num_before + count))
        self._check_fits("", num_before + len(tokens))
        return tokens.tolist()

    def _blank_page(self) -> Tokens:
        """Return the prompt of an empty text, even if the vocabulary adds nothing to texts. Raise InvalidRequest."""
        if not self._model.blank_page:
            raise bad_field("prompt", "is empty, and the vocabulary has no token (BOS) to begin with; give a character")
        return tokens_of(self._model.blank_page)

    def _saved(self, name: str) -> SavedState | None:
        """Load a state from the store; None if it is in memory and the store has no newer one.

        If memory drops it now, the prompt is computed.
        """
        if self._states is None:
            return None
        if self._is_in_memory(name) and not self._states.is_newer(name):
            self._states.use(name)
            return None
        return self._states.load(name)

    def check_fits(self, count: int) -> None:
        """Raise ContextExceeded if a text of so many tokens leaves no room for an answer."""
        self._check_fits("", count)

    def _check_may_fit(self, count: int) -> None:
        """Raise ContextExceeded if a text whose beginning has so many tokens leaves no room for an answer."""
        self._check_fits("at least ", count)

    def _check_fits(self, precision: str, count: int) -> None:
        if count >= self._model.n_ctx_seq:
            trained = "for which the model was trained; rope_scaling changes that, a larger n_ctx does not"
            advice = trained if self._model.is_as_trained else "try increasing it"
            raise ContextExceeded(
                f"request ({precision}{count} tokens) exceeds the available context size "
                f"({self._model.n_ctx_seq} tokens), {advice}",
                n_prompt_tokens=count,
                n_ctx=self._model.n_ctx_seq,
            )

    def _fewest_tokens(self, parts: Sequence[str | int], most: int) -> int:
        """Return a lower bound of the number of tokens, without tokenizing; 0 for parts that are to be counted.

        These may fit `most` tokens, or have at most COUNTED_BYTES, so that an error tells their true number.
        """
        if str not in set(map(type, parts)):
            return 0  # ids are counted when they are checked
        texts = [part for part in parts if isinstance(part, str)]
        sizes = [len(text) if text.isascii() else len(text.encode()) for text in texts]
        ids = len(parts) - len(texts)
        if ids + sum(sizes) <= max(most, COUNTED_BYTES) or not self._model.max_piece_bytes:
            return 0
        return ids + sum(-(-size // self._model.max_piece_bytes) for size in sizes)

    def _samplers(self, specs: Sequence[BranchSpec], prompt: Tokens, given: Sequence[Tokens]) -> list[Sampler]:
        """Return a sampler for each branch: one is built for each set of parameters and past, the others are its clones."""
        prompt = self._text_of(prompt)
        samplers: list[Sampler] = []
        built: dict[tuple[SamplingParams, bytes], Sampler] = {}
        try:
            for spec, own in zip(specs, given, strict=True):
                alike = spec.sampling, own.tobytes()
                if alike in built:
                    samplers.append(built[alike].clone(spec.seed, spec.min_tokens))
                    continue
                params = self._checked(spec.sampling)
                past = self._past(params, prompt, own)
                samplers.append(self._model.new_sampler(params, spec.seed, past, spec.min_tokens))
                built[alike] = samplers[-1]
        except BaseException:
            for sampler in samplers:
                sampler.close()
            raise
        return samplers

    def sampler(self, spec: BranchSpec, prompt: Tokens, given: Sequence[int], in_grammar: Sequence[int]) -> Sampler:
        """Return a new sampler for a branch that begins with `given`; its grammar has accepted `in_grammar`.

        Raise InvalidRequest.
        """
        self.check_together([spec])
        params = self._checked(spec.sampling)
        past = self._past(params, self._text_of(prompt), given)
        sampler = self._model.new_sampler(params, spec.seed, past, spec.min_tokens)
        try:
            sampler.accept_in_grammar(in_grammar)
        except BaseException:
            sampler.close()
            raise
        return sampler

    def check_together(self, specs: Sequence[BranchSpec]) -> None:
        """Raise InvalidRequest if the samplers of a request's branches would take too much memory together."""
        _check_breakers(specs)
        self._check_windows(specs)

    def _past(self, params: SamplingParams, prompt: Sequence[int], own: Sequence[int]) -> Sequence[int]:
        """Return the tokens that penalties look at before the branch samples any; `own` are those of `append`."""
        if params.penalty_prompt is None:
            return [*prompt, *own] if own else prompt
        return self.tokenize(params.penalty_prompt, add_special=False, parse_special=True, field="penalty_prompt")

    def _text_of(self, prompt: Tokens) -> Tokens:
        """Return a prompt's tokens of text, which samplers look at."""
        return prompt if self._model.encoder is None else without_media(prompt)

    def count_special(self, prompt: Sequence[int]) -> int:
        """Return 1 if a prompt begins with the special token that the vocabulary puts before texts, else 0."""
        return int(list(prompt[:1]) == self._model.tokenize("", add_special=True, parse_special=False)[:1])

    # ---- adapters and control vectors

    def _with_moods(self, command: Generate) -> Generate:
        """Return a command whose control vectors, and those of each branch, are moods. Raise InvalidRequest."""
        named = command.control_vectors is not None or any(
            spec.control_vectors is not None for spec in command.branches
        )
        if not self._vectors and not named:
            return command  # nearly always
        mood = self._mood if command.control_vectors is None else self.mood(command.control_vectors)
        branches = tuple(self.with_mood(spec, mood) for spec in command.branches)
        base = None if command.base is None else self.with_mood(command.base, mood)
        return replace(command, control_vectors=mood, branches=branches, base=base)

    def with_mood(self, spec: BranchSpec, default: Mood) -> BranchSpec:
        """Return a branch whose control vectors are a mood, by default the request's. Raise InvalidRequest."""
        mood = default if spec.control_vectors is None else self.mood(spec.control_vectors)
        return replace(spec, control_vectors=mood)

    def mood(self, given: ControlVectors) -> Mood:
        """Return the mood of control vectors by their names. Raise InvalidRequest."""
        if given and (reason := self._model.no_control_vectors):
            raise bad_field("control_vectors", f"cannot be used: {reason}")
        for name, scale in given:
            if name not in self._vectors:
                known = ", ".join(vector.name for vector in self._model.control_vectors) or "none"
                raise bad_field("control_vectors", f"{str(name)[:64]!r} is not known; the server has {known}")
            if not isinstance(scale, int | float) or not abs(scale) <= MAX_VECTOR_SCALE:  # nan is in no range
                raise bad_field(
                    "control_vectors", f"the scale of {name} should be -{MAX_VECTOR_SCALE} to {MAX_VECTOR_SCALE}"
                )
        return _mood({self._vectors[name]: scale for name, scale in given})

    def scales(self, given: Iterable[tuple[int, float]]) -> LoraScales:
        """Return the scale of every adapter; 0 for those that are not named. Raise InvalidRequest."""
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
        most = self._model.n_embed_tokens
        if isinstance(command, Rerank):
            if not self._model.can_rank:
                raise NotSupported("This server does not support reranking. Start it with `--reranking`")
            self._check_run("query", command.query)
            for place, document in enumerate(command.documents):
                pair = (command.query, "" if command.truncate else document)
                field = _numbered("documents", place, len(command.documents))
                self._check_input(field, "at least ", self._fewest_tokens(pair, most))
            pairs = (self._pair(command, document) for document in command.documents)
            inputs = self._checked_inputs(pairs, "documents", len(command.documents))
            return EmbeddingJob(command.request_id, "rank", inputs, lora=self.lora)
        if not self._model.can_embed:
            raise NotSupported("This server does not support embeddings. Start it with `--embeddings`")
        pooling = command.pooling or self._model.pooling
        if pooling == "rank" and not command.pooling:
            raise NotSupported("This model ranks documents and makes no embeddings")
        if pooling not in POOLINGS:
            raise bad_field("pooling", f"should be one of {', '.join(POOLINGS)}")
        for place, parts in enumerate(() if command.truncate else command.inputs):
            field = _numbered("input", place, len(command.inputs))
            self._check_input(field, "at least ", self._fewest_tokens(parts, most))
        texts = (self._text(parts, command.truncate) for parts in command.inputs)
        inputs = self._checked_inputs(texts, "input", len(command.inputs))
        if count_numbers(inputs, pooling, self._model.n_embd) > MAX_NUMBERS:
            raise bad_field("input", f"asks for more than {MAX_NUMBERS} numbers; send fewer at once")
        return EmbeddingJob(command.request_id, "embed", inputs, pooling, self.lora)

    def state_job(self, command: StateAction) -> StateJob:
        """Return the job of a StateAction command, with its file read. Raise InvalidRequest."""
        check_action(command.action, command.name, command.slot)
        saved, is_newer = None, False
        if self._states is not None and command.action == "restore":
            is_newer = self._states.is_newer(command.name)  # asked first, since the loaded text is known
            saved = self._states.load(command.name)
        return StateJob(command.request_id, command.action, command.name, command.slot, saved, is_newer)

    def _text(self, parts: Sequence[str | int], truncate: bool) -> list[int]:
        """Return the tokens of a text to embed; with `truncate` as many as fit."""
        if truncate:
            parts = [self._beginning(part) if isinstance(part, str) else part for part in parts]
        tokens = self.tokenize(parts, add_special=True, parse_special=True, field="input")
        if not truncate:
            return tokens
        end = self._model.tokenize("", True, True)[-1:]
        return truncated(tokens, self._model.n_embed_tokens, end)

    def _pair(self, command: Rerank, document: str) -> list[int]:
        """Return the input of `rank` for the query and a document, which may lose its end until the pair fits."""
        if not command.truncate:
            self._check_run("documents", document)
            return self._model.pair(command.query, document)
        most = self._model.n_embed_tokens
        tokens = self._read(self._beginning(document), False, False, "documents")
        room = min(len(tokens), command.max_tokens or most, most)
        while True:
            if room < len(tokens):
                document = b"".join(self._model.piece(token, False) for token in tokens[:room]).decode(errors="ignore")
            pair = self._model.pair(command.query, document)
            if len(pair) <= most or not room:
                return pair
            room = max(0, room - (len(pair) - most))

    def _beginning(self, text: str) -> str:
        """Return so much of a text that is to be truncated as may be kept: megabytes take seconds to tokenize."""
        return text[: (self._model.n_embed_tokens + 1) * self._model.max_piece_bytes or None]

    def _checked_inputs(self, inputs: Iterable[list[int]], field: str, count: int) -> list[list[int]]:
        """Return `count` inputs that fit; those after the first that does not are never read. Raise InvalidRequest."""
        checked = []
        for place, tokens in enumerate(inputs):
            where = _numbered(field, place, count)
            if not tokens:
                raise InvalidRequest(f"Input content cannot be empty{'' if count == 1 else f': {where}'}", param=where)
            self._check_input(where, "", len(tokens))
            checked.append(tokens)
            go_on()
        if not checked:
            raise bad_field(field, "should not be empty")
        return checked

    @staticmethod
    def _check_run(field: str, text: str) -> None:
        """Raise InvalidRequest for a text that is too long for one call of native code."""
        try:
            check_run(len(text))
        except RunTooLong as error:
            raise bad_field(field, str(error)) from None

    def _check_input(self, field: str, precision: str, count: int) -> None:
        if count > (most := self._model.n_embed_tokens):
            holds = f"{precision}{count} tokens, and the physical batch size (n_ubatch) is {most}"
            raise bad_field(field, f"is too large to process: {holds}")

    def _are_known(self, ids: Tokens) -> bool:
        """Whether all of the ids are in the vocabulary."""
        values = np.frombuffer(ids, np.int32) if ids else np.zeros(1, np.int32)
        return bool(values.min() >= 0 and values.max() < self._model.n_vocab)

    def _check_token(self, token: int, field: str) -> None:
        if not 0 <= token < self._model.n_vocab:
            there_are = f"0 to {self._model.n_vocab - 1}"
            raise bad_field(field, f"token id {token} is not in the vocabulary ({there_are})")

    def _checked(self, params: SamplingParams) -> SamplingParams:
        """Return parameters that are safe for native code, a JSON schema as a grammar. Raise InvalidRequest."""
        if len(params.logit_bias) > MAX_BIASES:
            raise bad_field("logit_bias", f"has {len(params.logit_bias)} entries; at most {MAX_BIASES} are taken")
        for token in params.allowed_token_ids:
            self._check_token(token, "allowed_token_ids")
        params = replace(
            params,
            logit_bias=tuple(self._known_biases(params.logit_bias)),
            stop_token_ids=tuple(token for token in params.stop_token_ids if 0 <= token < self._model.n_vocab),
            repeat_last_n=self._window(params.repeat_last_n),
            dry_penalty_last_n=self._window(params.dry_penalty_last_n),
        )
        if not params.grammar and params.json_schema:
            made = _prepared(params.json_schema, params.schema_place)
            _tell("a JSON schema is loosened", list(made.remarks))
            params = replace(params, grammar="root ::= schema-0", grammar_schemas=(made.text,))
            self._model.grammars.matcher(params.grammar, params.grammar_schemas, made.place)
        elif not params.grammar_schemas and (rule := rule_of(params.grammar, params.grammar_place)):
            params = replace(params, grammar="root ::= schema-0", grammar_schemas=(rule,))
            self._model.grammars.matcher(params.grammar, params.grammar_schemas, params.grammar_place)
        elif params.grammar_schemas:
            params = self._with_calls(params)
        elif params.grammar:
            self._model.grammars.matcher(params.grammar, field=params.grammar_place)
        if not params.grammar:
            return replace(params, grammar_triggers=())
        for before in (text for kind, text in params.grammar_triggers if kind == "answer" and text):
            params = replace(params, grammar=preceded(params.grammar, str(before)))
        return params

    def _with_calls(self, params: SamplingParams) -> SamplingParams:
        """Return parameters whose grammar of calls can be used. Raise InvalidRequest, which names `tools`.

        A request does not ask for a lazy grammar: there a schema that makes none takes any value of its type, and if the
        tools make none together, calls are free.
        """
        is_lazy = any(kind != "answer" for kind, _ in params.grammar_triggers)
        schemas, notes = [], []
        for schema in params.grammar_schemas:
            try:
                made = _prepared(schema, "tools")
                self._model.grammars.matcher("root ::= schema-0", (made.text,), made.place)
                notes += [f"{made.tool}: {remark}" if made.tool else remark for remark in made.remarks]
            except InvalidRequest as error:
                if not is_lazy:
                    raise
                tool = tool_of(json.loads(schema)) or "a tool"
                notes.append(f"{tool} is called with any arguments, since its schema makes no grammar: {error.message}")
                made = prepared(any_of_type(schema), "tools")
            schemas.append(made.text)
        _tell("tools hold less than their schemas say", notes)
        try:
            self._model.grammars.matcher(params.grammar, schemas, "tools")
        except InvalidRequest as error:
            if not is_lazy:
                raise
            _tell("tools are called with any arguments, since together they make no grammar", [error.message])
            return replace(params, grammar="", grammar_schemas=())
        return replace(params, grammar_schemas=tuple(schemas))

    def _window(self, last_n: int) -> int:
        """Return how many last tokens a penalty considers: no more than a context holds, which -1 stands for."""
        return self._model.n_ctx_seq if last_n < 0 else min(last_n, self._model.n_ctx_seq)

    def _check_windows(self, specs: Sequence[BranchSpec]) -> None:
        """Raise InvalidRequest if the penalties would remember too many tokens: each branch has room for its own."""
        counts = Counter(spec.sampling for spec in specs)
        for name, stage in (("repeat_last_n", "penalties"), ("dry_penalty_last_n", "dry")):
            total = sum(
                count * self._window(getattr(params, name)) * [each.name for each in chain(params, 0)].count(stage)
                for params, count in counts.items()
            )
            if total > MAX_REMEMBERED:
                asked = f"asks {len(specs)} branches to consider {total} tokens"
                raise bad_field(name, f"{asked}; at most {MAX_REMEMBERED} are taken for all together")

    def _known_biases(
        self, biases: Iterable[tuple[int | str, float | None]]
    ) -> Iterator[tuple[int | str, float | None]]:
        """Yield the biases of known token ids; clients of other models often send unknown ones."""
        for token, bias in biases:
            if isinstance(token, int) and token >= self._model.n_vocab:
                if not self._has_logged_biases:
                    self._has_logged_biases = True
                    text = "logit_bias: token id %d is not in the vocabulary (0 to %d); such biases are skipped; logged once"
                    log.warning(text, token, self._model.n_vocab - 1)
                continue
            if isinstance(token, int):
                self._check_token(token, "logit_bias")
            yield token, bias


def beginning_of(spec: BranchSpec) -> BranchBeginning:
    """Return what a branch computes before its text, as its fields say it: branches alike in it heal the same end."""
    return spec.direction, spec.append, spec.control_vectors


def _mood(scales: Mapping[str, float]) -> Mood:
    return tuple(sorted((key, float(scale)) for key, scale in scales.items() if scale))


def heals(spec: BranchSpec) -> bool:
    """Whether a branch heals the end of what stands before its text; a grammar begins behind it, and is kept as it is."""
    return spec.token_healing and not spec.has_grammar


def any_of_type(schema: str) -> str:
    """Return the schema of all values of another's type; one of unknown type is an object's, as most arguments are."""
    given = json.loads(schema)
    kinds = given.get("type", "object") if isinstance(given, dict) else KINDS
    each = kinds if isinstance(kinds, list | tuple) else [kinds]
    return json.dumps({"type": kinds if each and all(kind in KINDS for kind in each) else "object"})


def _file(text: str, field: str) -> bytes:
    """Return the bytes of base64. Raise InvalidRequest."""
    try:
        whole = text.replace("\n", "").replace("\r", "")  # as encoders for mail write it, or without its end
        return b64decode(whole + "=" * (-len(whole) % 4), validate=True)
    except ValueError:
        raise bad_field(field, "should be base64") from None


def _check_breakers(specs: Sequence[BranchSpec]) -> None:
    """Raise InvalidRequest for too many sequence breakers: each branch has its own copy of each."""
    counts = [
        len(spec.sampling.dry_sequence_breakers) * spec.sampling.samplers.count("dry")
        for spec in specs
        if spec.sampling.dry_multiplier
    ]
    if sum(counts) > MAX_DRY_BREAKERS:
        raise bad_field(
            "dry_sequence_breakers",
            f"has {max(counts)} entries for {len(specs)} branches; at most {MAX_DRY_BREAKERS} are taken for all together",
        )


_prepared = lru_cache(MAX_PREPARED)(prepared)


def _numbered(field: str, place: int, count: int) -> str:
    """Return the name of one of `count` inputs of a field, which is the field's own for a single one."""
    return field if count == 1 else f"{field}[{place}]"


def _tell(what: str, notes: list[str]) -> None:
    """Tell the log what a request's schemas do not hold, in a line for all of them, and what to do."""
    if notes:
        others = f", and {len(notes) - MAX_TOLD} more" if len(notes) > MAX_TOLD else ""
        _warn(f"{what}: {'; '.join(notes[:MAX_TOLD])}{others}. Change these places, or nothing: all else holds")


@lru_cache(MAX_PREPARED)
def _warn(line: str) -> None:
    """Write a line once: every turn of a chat has the same tools."""
    log.warning("%s", line)
