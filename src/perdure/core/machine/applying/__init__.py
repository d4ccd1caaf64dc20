"""What each kind of entry changes in the state. Only `apply` calls these; nothing else may change a state."""
