"""The objects that all routes of a worker share, under `app.extensions["srb"]`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from flask import current_app

from srb.protocol import MAX_BRANCHES
from srb.settings import Settings
from srb.web.calls.calls import Calls
from srb.web.calls.engine_client import EngineClient
from srb.web.metrics import SHARED_FOLDER, Metrics
from srb.web.stories.desk import Desk
from srb.web.system_prompt import SystemPromptStore


@dataclass
class Web:
    """The shared objects of one worker: settings, engine client, open calls, and the folder it shares with other workers."""

    settings: Settings
    client: EngineClient
    folder: Path | None = field(init=False)
    calls: Calls = field(init=False)
    system_prompt: SystemPromptStore = field(init=False)
    stories: Desk = field(init=False)
    metrics: Metrics = field(default_factory=Metrics)
    _scaled: dict[int, Settings] = field(default_factory=dict)  # by the number of replicas

    def __post_init__(self) -> None:
        shared = os.environ.get(SHARED_FOLDER)
        self.folder = Path(shared) if shared else None
        self.calls = Calls(self.client, self.settings, self.metrics.open_calls, self.folder)
        self.system_prompt = SystemPromptStore(self.settings, self.folder)
        self.stories = Desk(self.settings.stories_path)

    @property
    def request_settings(self) -> Settings:
        """The settings with the limits that requests have now: each replica of a cluster adds its branches to max_n."""
        replicas = self.client.model.replicas if self.client.model is not None else 1
        if replicas <= 1:
            return self.settings
        if replicas not in self._scaled:
            most = min(MAX_BRANCHES, replicas * self.settings.max_n)
            self._scaled[replicas] = self.settings.model_copy(update={"max_n": most})
        return self._scaled[replicas]

    def start(self) -> None:
        """Connect to the engine and check the stories now, not at the first request; called after a worker's fork."""
        self.client.start()
        self.stories.start()

    def shut_down(self, grace: float | None = None) -> None:
        """End the open calls after `grace` seconds and refuse new ones from then on; see Calls.shut_down."""
        self.calls.shut_down(grace)


def web() -> Web:
    """Return the Web of the application that is handling the current request."""
    return cast(Web, current_app.extensions["srb"])
