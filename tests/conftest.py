"""Settings of all tests, and the servers that they share."""

from hypothesis import settings

pytest_plugins = ["tests.servers"]

# A test's time depends on what else the machine does, so it decides nothing.
settings.register_profile("srb", deadline=None)
settings.load_profile("srb")
