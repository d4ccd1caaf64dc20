"""Where transitions are committed: implementations of `ports.Store`, all of which pass one conformance suite."""
