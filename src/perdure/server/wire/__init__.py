"""The node's end of the wire: connections of clients and workers elsewhere, their sessions, and what is asked through them.

It carries requests to `ports.Frontend` and tasks from it, and decides nothing. What is said and how it is framed is in `perdure.wire`.
"""
