"""`perdure bench …`: measuring. Each benchmark is a function of `perdure.bench` that says its own options."""

from cyclopts import App

app = App(name="bench", help="Measure.")
app.command("perdure.bench.embedded:main", name="embedded", help="Measure the embedded engine on this machine.")
app.command(
    "perdure.bench.storage:main", name="storage", help="Measure the journal and its index: restarts and listings at a size."
)
app.command("perdure.bench.parked:main", name="parked", help="Measure runs that only wait: memory, answers, restarts.")
app.command("perdure.bench.remote:main", name="remote", help="Measure a server, a worker and a client as three processes.")
app.command(
    "perdure.bench.approvals:main", name="approvals", help="Measure runs that wait on a server, and how fast they all go on."
)
app.command("perdure.bench.replay:main", name="replay", help="Measure workflow tasks with and without the run held warm.")
