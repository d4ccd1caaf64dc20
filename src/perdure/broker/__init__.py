"""Carrying tasks from the engine to subscribers. Brokers may lose, repeat and reorder; they never decide anything."""
