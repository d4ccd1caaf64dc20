"""Numbers: what the engine costs on this machine. Measures real processes and real disks; injects no faults, draws no conclusions."""
