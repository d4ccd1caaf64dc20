"""How a process lives: the real clock, disk and source of chance. The only place where time, files and randomness come in."""
