"""The wire between a node and other processes: what is said over it, how it is framed, and the asker's end of it.

The node's end is `perdure.server`. Nothing here decides anything: requests, replies and tasks are carried as they are.
"""
