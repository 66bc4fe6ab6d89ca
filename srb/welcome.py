"""The first screen, printed when the server is ready: its address, its model and one command to try."""

import contextlib
import sys

from srb.config.named_models import BUNDLED_MODEL, DEFAULT_MODEL
from srb.config.settings import Settings
from srb.config.values import setting_text

# On this path a body may have any field; on /v1/completions one with a sampler's is OpenAI's, with one answer.
_SCREEN = """
  SRB is ready: model {model}, {n} per prompt by default.{profile}{hint}

{page}{example}{stop}"""
_PAGE = "    page    {url}/\n"
_EXAMPLE = """    try it  curl -N {target}{key} -d '{{"prompt": "Once upon a time,"}}'
"""
_STOP = "    stop    Ctrl-C\n"
_HINT = """
  It knows only the stories that it was trained on: `--model {name}`, or make serve MODEL={name}, serves a small model that
  people use ({size:.0f} MB, {licence}); `srb models` lists what there is."""


def print_first_screen(url: str, settings: Settings) -> None:
    """Print the screen, unless whoever reads it has gone or its disk is full: a server runs without it."""
    with contextlib.suppress(OSError):
        print(first_screen(url, settings), flush=True)


def first_screen(url: str, settings: Settings) -> str:
    """Return the screen's text; `url` is the address that the web server listens on, `http+unix://PATH` for a socket."""
    socket = url.partition("http+unix://")[2]
    target = f"--unix-socket {socket} http://localhost{settings.api_prefix}" if socket else url + settings.api_prefix
    key = " -H 'X-Api-Key: …'" if settings.api_key or settings.api_key_file else ""
    page = _PAGE.format(url=url + settings.api_prefix) if settings.ui and settings.has_dialect("srb") else ""
    path = settings.example_path
    example = _EXAMPLE.format(target=target + path, key=key) if path else ""
    stop = _STOP if sys.stdout.isatty() else ""  # systemd stops a service
    n = "1 branch" if settings.n == 1 else f"{settings.n} branches"
    profile = _profile(settings)
    model = f"of the replicas at {where}" if (where := settings.cluster or settings.replicas) else settings.model_alias
    hint = "" if settings.has_replicas or settings.models or settings.model_path != BUNDLED_MODEL else _hint()
    return _SCREEN.format(model=model, n=n, profile=profile, hint=hint, page=page, example=example, stop=stop)


def _hint() -> str:
    """Return the line beside the bundled model that says how to get another."""
    return _HINT.format(name=DEFAULT_MODEL.name, size=DEFAULT_MODEL.size / 1e6, licence=DEFAULT_MODEL.licence)


def _profile(settings: Settings) -> str:
    """Return the line of the profile, with the settings that are in force because of it; none without a profile."""
    if settings.profile == "none":
        return ""
    values = (f"{name} {setting_text(value)}" for name, value in settings.in_profile.items())
    return f"\n  Profile {settings.profile}: {', '.join(values) or 'nothing, all of it was given other values'}."
