"""Real processes, real faults: trials that kill servers and workers under a workload and audit what is left.

`world` is the outside world, a process of its own with a ledger; `pipelines` is the code that workers run, in two builds; `evidence` and
`delayed_signal` are trials; `perdure chaos` runs them. The verdict is `perdure.testing.audit.pipelines`, which knows nothing of the engine.
"""
