"""The objects that all routes of a worker share, under `app.extensions["srb"]`."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import gevent
from flask import current_app, has_request_context, request

from srb.config.api_keys import rooms_of
from srb.config.settings import Settings
from srb.web.calls.calls import Calls
from srb.web.calls.engine_client import EngineClient
from srb.web.dialects.llamacpp.body import SystemPrompt
from srb.web.foreign_pages import is_page
from srb.web.forgetting import Forgetting
from srb.web.limits import NO_KEY, SENT_KEY, client_of_key
from srb.web.metrics import SHARED_FOLDER, Metrics
from srb.web.models.choice import ModelChoice
from srb.web.stories.stories_file import StoriesFile
from srb.web.system_prompt import SystemPromptStore
from srb.web.usage import Usage
from srb.wire.commands import MAX_BRANCHES
from srb.wire.events import ModelInfo

_ENGINE_SECONDS = 60.0  # until the engine of a server that begins, or of one that has read its keys again, is told


@dataclass
class Web:
    """The shared objects of one worker: settings, engine client, open calls, and the folder it shares with other workers."""

    server: Settings  # of the server; those of a request's model may differ
    engine: EngineClient | ModelChoice  # with several models, the choice among their engines
    folder: Path | None = field(init=False)
    calls: Calls = field(init=False)
    system_prompt: SystemPromptStore = field(init=False)
    stories: StoriesFile = field(init=False)
    forgetting: Forgetting = field(init=False)
    metrics: Metrics = field(init=False)
    usage: Usage | None = field(init=False)
    _scaled: dict[int, Settings] = field(default_factory=dict)  # by the number of replicas

    def __post_init__(self) -> None:
        shared = os.environ.get(SHARED_FOLDER)
        self.folder = Path(shared) if shared else None
        self.metrics = Metrics(self.folder)
        embed = (lambda texts, may_load: None) if isinstance(self.engine, EngineClient) else self.engine.embed
        shown = self.metrics.open_calls, self.folder, self.metrics.observe
        self.usage = Usage(Path(self.server.usage_file)) if self.server.usage_file else None
        self.calls = Calls(lambda: self.client, self.server, *shown, embed=embed, usage=self.usage)
        self.system_prompt = SystemPromptStore(self.server, self.folder)
        self.stories = StoriesFile(self.server.stories_place, rooms_of(self.server.load_api_keys()))
        self.forgetting = Forgetting(self.server, lambda: self.engines)

    @property
    def client(self) -> EngineClient:
        """The client of the engine; with several models, that of the present request, which waits for its model."""
        return self.engine if isinstance(self.engine, EngineClient) else self.engine.client(self.calls)

    @property
    def engines(self) -> list[EngineClient]:
        """The clients of all engines that serve requests now; the only one, whatever its state."""
        return [self.engine] if isinstance(self.engine, EngineClient) else self.engine.engines()

    @property
    def choice(self) -> ModelChoice | None:
        """The choice among several models; None with one."""
        return self.engine if isinstance(self.engine, ModelChoice) else None

    @property
    def settings(self) -> Settings:
        """The settings of the present request: the server's; with several models, those of the model that it is about."""
        return self.server if isinstance(self.engine, EngineClient) else self.engine.settings()

    @property
    def known_model(self) -> ModelInfo | None:
        """The facts of the only model, if they are known; None with several models, one of which the body may name."""
        return self.engine.model if isinstance(self.engine, EngineClient) else None

    @property
    def request_settings(self) -> Settings:
        """The settings with the limits of the present request: those of now, and its key's own max_n if that is less."""
        settings = self._settings_of_now
        own: int = request.environ.get(SENT_KEY, NO_KEY).max_n if has_request_context() else 0
        if not 0 < own < settings.max_n:
            return settings
        return settings.model_copy(update={"max_n": own, "n": min(own, settings.n)})

    @property
    def _settings_of_now(self) -> Settings:
        """The settings with a max_n to which each replica of a cluster adds its branches.

        Until the number of replicas is known, all branches are allowed; requests are checked again when it is.
        """
        model = self.known_model  # a cluster has one model
        unknown = MAX_BRANCHES if self.server.has_replicas else 1
        replicas = model.replicas if model is not None else unknown
        if replicas <= 1:
            return self.settings
        if replicas not in self._scaled:
            most = min(MAX_BRANCHES, replicas * self.server.max_n)
            self._scaled[replicas] = self.server.model_copy(update={"max_n": most})
        return self._scaled[replicas]

    @property
    def shared_prompt(self) -> SystemPrompt:
        """The system prompt that all requests share; a foreign page has none, since it could read a writer's by it."""
        return SystemPrompt() if is_page() else self.system_prompt.get()

    def start(self) -> None:
        """Connect to the engine and check the stories now, not at the first request; called after a worker's fork."""
        if isinstance(self.engine, EngineClient):
            self.engine.start()
        else:
            self.engine.models.start()
        self.stories.start()
        gevent.spawn(self._note_keys)

    def _note_keys(self) -> None:
        self.wait_settled(_ENGINE_SECONDS)  # one that begins later learns of it at its start
        self.forgetting.note_keys(client_of_key(each) for each in self.server.load_api_keys())

    def wait_settled(self, seconds: float) -> None:
        """Wait until every engine that runs is connected to, at most `seconds`."""
        with gevent.Timeout(seconds, False):
            if isinstance(self.engine, EngineClient):
                self.engine.wait_settled()
            else:
                self.engine.models.wait_settled()

    def shut_down(self, grace: float | None = None) -> None:
        """End the open calls after `grace` seconds and refuse new ones from then on; see Calls.shut_down."""
        self.calls.shut_down(grace)


def web() -> Web:
    """Return the Web of the application that is handling the current request."""
    return cast(Web, current_app.extensions["srb"])
