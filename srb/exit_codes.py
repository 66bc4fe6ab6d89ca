"""Exit codes of SRB's processes, by which the supervisor and systemd decide on a restart."""

EXIT_CONFIG = 2  # a setting is wrong
EXIT_MODEL = 3  # the model cannot be loaded; a restart would not help
EXIT_FAULT = 4  # the engine is broken beyond repair; a restart helps
EXIT_MACHINE = 5  # the machine lacks something now, such as room on a disk; a later start may have it
EXIT_WORKER = 6  # a web worker cannot start, for another reason than the settings; a later start may
