"""Ways into a node from outside its process, all on one port: the HTTP API, and the wire for clients and workers elsewhere.

Everything passes one gate, and reaches the engine through `ports.Frontend` alone. Nothing here decides anything about a run.
"""
