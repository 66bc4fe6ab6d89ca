"""Request bodies of two servers of 2023. Their defaults apply to parameters that this server's settings do not set."""

from typing import Annotated, Any, Self

from srb.config.settings import Settings
from srb.errors import bad_field
from srb.web.bodies.completion import CompletionBody
from srb.web.bodies.fields import INT32_MAX, Integer, Natural, NotNegative, Prompt, between
from srb.web.dialects.llamacpp.body import SystemPrompt
from srb.wire.commands import Generate

STREAM_LENGTH = 32  # default of max_tokens in POST /stream
STREAM_DEFAULTS = {"repeat_penalty": 1.3}
DIALOGUE_DEFAULTS = {"temperature": 0.1}


def _with_defaults(body: dict[str, Any], defaults: dict[str, Any], settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if name not in settings.model_fields_set} | body


class _OneText(CompletionBody):
    """A prompt that one branch continues."""

    def command(self, settings: Settings, max_tokens: int) -> Generate:
        if len(self.prompt) != 1:
            raise bad_field("prompt", "this dialect continues one prompt")
        if self.n not in (None, 1):
            raise bad_field("n", f"must be 1 in this dialect, but got {self.n}")
        if self.explore is not None:
            raise bad_field("explore", "is for dialects with several branches; this one has one")
        (command,) = self.commands(settings, n=1, max_tokens=max_tokens)
        return command


class StreamBody(_OneText):
    """The body of `POST /stream`; `num_predict` is a name of n_predict."""

    temp: NotNegative | None = None
    cache: Natural = 0
    n_batch: Annotated[Integer, between(1, INT32_MAX)] | None = None

    @classmethod
    def read(cls, body: dict[str, Any], settings: Settings) -> Self:
        parsed = cls.parse(_with_defaults(body, STREAM_DEFAULTS, settings))
        more: dict[str, Any] = {}
        if parsed.temp is not None:
            more["temperature"] = parsed.temp
        if parsed.cache:
            if parsed.cache_prompt is False:
                raise bad_field("cache", "needs cache_prompt true")
            more["state"] = f"cache-{parsed.cache}"
        return parsed.model_copy(update=more)


class DialogueBody(_OneText):
    """The body of `POST /completion` for a dialogue: the user's words, and the names of user and assistant."""

    system_prompt: str | None = None
    anti_prompt: str | None = None
    assistant_name: str | None = None

    @staticmethod
    def matches(body: dict[str, Any]) -> bool:
        """Whether a body is a dialogue's; llama-server has these fields only inside an object `system_prompt`."""
        return "anti_prompt" in body or "assistant_name" in body or isinstance(body.get("system_prompt"), str)

    @classmethod
    def read(cls, body: dict[str, Any], settings: Settings, known: SystemPrompt) -> Self:
        """Validate a body and build its prompt; `known` is the current system prompt, for fields that the body lacks."""
        parsed = cls.parse(_with_defaults(body, DIALOGUE_DEFAULTS, settings))
        system = known.prompt if parsed.system_prompt is None else parsed.system_prompt
        user, assistant = known.names(settings)
        prompts = [_dialogue(system, prompt, parsed.assistant_name or assistant) for prompt in parsed.prompt]
        stop = tuple(dict.fromkeys((*(parsed.stop or ()), parsed.anti_prompt or user)))
        return parsed.model_copy(update={"prompt": prompts, "stop": stop})


def _dialogue(system: str, prompt: Prompt, assistant_name: str) -> Prompt:
    """Return the system prompt (which ends with the user's name), the user's words and the assistant's name as one prompt.

    The system prompt is a separate part, so that its tokens do not depend on the text after it, and are computed once.
    """
    first, *rest = prompt
    if isinstance(first, str) and system and not system[-1].isspace() and not first[:1].isspace():
        first = f" {first}"
    return (*((system,) if system else ()), first, *rest, f"\n{assistant_name}")
