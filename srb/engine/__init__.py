"""The core: no I/O, no clock, no framework."""
