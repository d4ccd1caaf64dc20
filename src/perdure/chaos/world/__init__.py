"""The outside world of a trial: model, tools, approvals desk, payments, site and mail in one process with one ledger.

It fails, forgets and dawdles as its fate says, honours idempotency keys, and counts what it absorbed. The engine knows nothing of it.
"""
