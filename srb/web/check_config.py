"""Check of the settings: `python -m srb.web.check_config` prints, in one line, the error that would stop a worker."""

import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()  # the process ends before there is garbage to speak of

from srb.config.settings import Settings
from srb.errors import ConfigError
from srb.models.listed import list_models
from srb.web.app import create_app
from srb.web.chat.template import check_configured


def main() -> int:
    """Create the application with the current settings; return the exit status."""
    try:
        create_app()
        _check_models(Settings.load())
    except ConfigError as error:
        print(f"srb: {error.message}", file=sys.stderr, flush=True)
        return 2
    return 0


def _check_models(settings: Settings) -> None:
    """Raise ConfigError, with the model's name, for a chat template that one of several models has for itself."""
    for listed in list_models(settings).values() if settings.models else ():
        if {"chat_template", "chat_template_file"} & listed.own.keys():
            try:
                check_configured(listed.settings(settings))
            except ConfigError as error:
                raise ConfigError(f"models: {listed.name}: {error.message}") from None


if __name__ == "__main__":
    os._exit(main())  # freeing the modules would take a sixth of all this
