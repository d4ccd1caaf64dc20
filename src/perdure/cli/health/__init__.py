"""What `perdure doctor` looks at: the process it runs in, and the place where a node would keep its data. Each check is a function."""
