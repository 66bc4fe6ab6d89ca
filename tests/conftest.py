"""Settings of all tests."""

from hypothesis import settings

# A test's time depends on what else the machine does, so it decides nothing.
settings.register_profile("srb", deadline=None)
settings.load_profile("srb")
