"""What an operator sets: one frozen tree, read once at the start, from a file, then the environment, then flags."""
