"""SRB: one prompt, many continuations, streamed side by side from one shared KV prefix on llama.cpp."""
