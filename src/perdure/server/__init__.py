"""Ways into a node from outside its process. Today one: a socket in the data directory, for this machine's command line."""
