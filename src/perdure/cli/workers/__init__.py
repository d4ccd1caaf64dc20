"""`perdure worker`: worker processes, and the process above them that starts, watches, drains and replaces them.

The one above imports no user code and holds no connection: whatever user code does, it can be told to end. What the two say to each other
is in `messages`.
"""
