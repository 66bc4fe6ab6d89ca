"""Processes of a server: how they are started and watched, report, listen and end, and the runtime folder of each."""
