"""Messages between processes: commands and events, their encoding, frames of bytes on a socket."""
