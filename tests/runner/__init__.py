"""Runs of many tests: which of them, in which order, for how long; tests that fail once are run again, alone."""
