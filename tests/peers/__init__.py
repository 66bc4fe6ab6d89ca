"""Peers' own suites of tests against this server: `make test-peers`."""
