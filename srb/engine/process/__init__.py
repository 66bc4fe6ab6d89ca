"""The engine as a process: what comes in, the decode loop, heartbeats, the folder of named states."""
