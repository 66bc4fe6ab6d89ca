"""Calls while they are open."""
