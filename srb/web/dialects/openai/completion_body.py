"""The body of a text completion in the srb and openai dialects: OpenAI's fields besides those of every dialect."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from srb.config.settings import Settings
from srb.errors import bad_field
from srb.web.bodies.completion import CommandTemplate, CompletionBody
from srb.web.bodies.fields import Integer, check_between
from srb.web.bodies.media import IMAGE_DATA_SCHEMA
from srb.web.bodies.unread import Within
from srb.web.calls.echo import Echo, read_back
from srb.web.calls.ranking import Select
from srb.web.calls.stages import Best
from srb.web.context import Web
from srb.web.dialects.openai.chat_fields import FORMAT_SCHEMA, ReplyFormat, parse_response_format
from srb.web.dialects.openai.guided import GuidedFields
from srb.web.dialects.openai.token_fields import TokenFields
from srb.wire.commands import Generate
from srb.wire.events import ModelInfo


class TextCompletionBody(GuidedFields, TokenFields):
    """The body of a text completion. With `best_of`, that many branches are sampled per prompt, and `n` chosen of them."""

    best_of: Integer | None = None
    select: Select | None = None
    echo: bool = False
    suffix: str = ""
    response_format: Annotated[
        ReplyFormat, BeforeValidator(parse_response_format), WithJsonSchema(FORMAT_SCHEMA), Within("Format")
    ] = ReplyFormat()
    image_data: Annotated[list[Any], WithJsonSchema(IMAGE_DATA_SCHEMA), Within("Image")] = []

    # `model` was read before: ModelChoice picks by it, and a server with one model takes any name. `user` has no effect.
    model: str | None = None
    user: Any = None
    format: Any = None

    def commands(
        self, settings: Settings, n: int, max_tokens: int, draft: CommandTemplate | None = None
    ) -> list[Generate]:
        n = self.count(n)
        if self.best_of is not None and self.branches is not None:
            raise bad_field("best_of", "cannot be used together with 'branches'")
        if self.select is not None and self.best_of is None:
            raise bad_field("select", "needs best_of, the number of branches to choose from")
        if self.best_of is None:
            commands = super().commands(settings, n, max_tokens, draft)
        else:
            try:
                check_between(self.best_of, max(n, 1), settings.max_n)
            except ValueError as error:
                raise bad_field("best_of", f"{error} (n is {n})") from None
            commands = CompletionBody.commands(
                self.model_copy(update={"n": self.best_of}), settings, self.best_of, max_tokens
            )
        if self.best(n):
            commands = [_scored(command) for command in commands]
        if self.echo and self.wanted_probs >= 0:
            if self.has_directions:
                raise bad_field("echo", "cannot be used together with logprobs and directions")
            if self.suffix:
                raise bad_field("echo", "cannot be used together with logprobs and suffix")
            commands = [replace(command, prompt_logprobs=True) for command in commands]
        return commands

    def sampling_changes(self) -> dict[str, Any]:
        given = super().sampling_changes()
        if not self.response_format:
            return given
        if other := next((name for name in ("grammar", "json_schema") if given.get(name)), None):
            raise bad_field("response_format", f"cannot be used together with {other}")
        place = f"response_format{self.response_format.place}"
        return {**given, "json_schema": self.response_format.schema, "grammar": "", "schema_place": place}

    def count(self, default: int) -> int:
        """Return the number of branches per prompt in the answer."""
        return 1 if self.explore else default if self.n is None else self.n

    def best(self, default: int) -> Best | None:
        """Return the choice of the answer's branches, if more are sampled than returned."""
        n = self.count(default)
        return Best(n, self.select or "likely") if self.best_of is not None and self.best_of > n else None

    def requests(self, web: Web, n: int, max_tokens: int) -> tuple[list[Generate], list[Echo]]:
        """Return one Generate per prompt and, with `echo`, one Echo per prompt; the engine is asked for texts of tokens.

        Raise InvalidRequest or NotSupported for a body that cannot be answered, Unavailable if the engine is not ready.
        """
        asked = self.model_copy(update={"prompt": [self.truncated(prompt) for prompt in self.prompt]})
        commands = asked.commands(web.request_settings, n, max_tokens)
        echoes = [read_back(web.client, prompt, commands[0].prompt_logprobs) for prompt in asked.prompt if self.echo]
        commands = self.scored(commands)
        if self.suffix:
            model = web.client.check_ready()
            commands = [_filling_in(command, self.suffix, model, web.settings.spm_infill) for command in commands]
        return commands, echoes


def _filling_in(command: Generate, suffix: str, model: ModelInfo, suffix_first: bool) -> Generate:
    """Return a command that fills in the text between the prompt and `suffix`, in the model's order of the two."""
    if not model.has_fill_in_the_middle:
        raise bad_field("suffix", f"the model {model.alias} has no fill-in-the-middle tokens")
    begin = (model.bos_id,) if model.add_bos else ()
    pre, suf, mid = (model.fim[name] for name in ("pre", "suf", "mid"))
    before, after = (pre, *command.prompt), (suf, suffix)
    parts = (*after, *before) if suffix_first else (*before, *after)
    place = command.place
    if place is not None:  # it is in the prompt that was sent, whose parts follow `pre`
        first = len(begin) + (len(after) if suffix_first else 0) + 1
        rest = (*place.rest, mid) if suffix_first else (*place.rest, *after, mid)
        place = replace(place, part=first + place.part, rest=rest)
    return replace(command, prompt=(*begin, *parts, mid), place=place, add_special=False)


def _scored(command: Generate) -> Generate:
    """Return a command that asks for the mean log-probability of each branch."""
    return replace(command, branches=tuple(replace(branch, score=True) for branch in command.branches))
