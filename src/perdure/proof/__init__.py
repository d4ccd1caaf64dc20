"""What perdure promises, rule by rule, and which tests prove it. Reads tests and their results; runs and imports none of them."""
