"""The engine as a process: sockets, threads, supervision."""
