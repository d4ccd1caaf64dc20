"""The whole loop in one command: mock payments, shipping and drivers, an engine that is killed on the way, and an audit of both books.

`services` and `engine` run as processes of their own; `run` starts, kills and stops them; `orders` is the workflow on show.
Nothing here is needed by, or known to, the engine.
"""
