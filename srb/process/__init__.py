"""Processes: how they start, end, report, listen, and end with their parent; the runtime folder that they share."""
