"""Chats whose thoughts are ended and whose streams are read again, over a cluster."""

from __future__ import annotations

import pytest

from tests.cluster.dialects import suite
from tests.cluster.e2e.conftest import Machines
from tests.e2e import test_chat_control
from tests.servers import Server

globals().update(suite(test_chat_control))


@pytest.fixture
def pair(machines: Machines) -> Server:
    return machines.share("thinking", workers=2, chat_template=test_chat_control.THINKING)
