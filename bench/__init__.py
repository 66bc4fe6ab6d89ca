"""Measures SRB: the raw loop of llama.cpp against the whole server, in one run, as ratios."""
