"""SRB: one prompt, many continuations, streamed side by side from one shared KV prefix on llama.cpp."""

__version__ = "0.1.0"
