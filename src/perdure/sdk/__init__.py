"""What authors write and call: `workflow`, `activity`, `Client`, and the conversion of values to payloads. No engine, no I/O of its own."""
