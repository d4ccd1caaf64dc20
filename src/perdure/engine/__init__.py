"""The shell around `core.machine`: owners of shards, the commit queue, timers, the sweeper, and the frontend that routes to them.

It knows stores, brokers and clocks only through `ports`; it never imports `worker` or `gateway`.
"""
