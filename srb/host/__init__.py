"""The machine: its cores and who uses them, memory, limits of a control group, systemd."""
