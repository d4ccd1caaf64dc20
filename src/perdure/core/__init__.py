"""What is true: values and pure functions. Standard library and msgspec only; no clock, no I/O, no randomness, no async."""
