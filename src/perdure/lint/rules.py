"""The rules: each with its name, its code, one sentence that says why, and one that says how to mend it.

Names and codes are kept for ever: they stand in people's `# perdure: ignore[…]` comments and in their continuous integration.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from perdure.core.errors import InvalidArgument


class Rule(Struct, frozen=True):
    """One thing to look for. `pure_once` rules are no fault inside `workflow.side_effect(…)`, which runs once and records its value."""

    name: str
    code: str
    why: str
    mend: str
    pure_once: bool = False


_ALL: Final = (
    Rule(
        "clock",
        "PD101",
        "the real clock shows another time on every replay",
        "use workflow.now(), or time.time(), which gives the run's own time in workflow code",
        pure_once=True,
    ),
    Rule(
        "early-name",
        "PD102",
        "a name imported from its module may be bound to the real function before perdure puts the run's own in its place",
        "import the module and call it as module.function(), or use workflow.now(), workflow.random(), workflow.uuid4()",
        pure_once=True,
    ),
    Rule(
        "chance",
        "PD103",
        "this source of chance gives other values on every replay, and what is secret must not stand in a history",
        "use workflow.random(), random.* or workflow.uuid4(); make secrets in an activity",
    ),
    Rule(
        "environment",
        "PD104",
        "environment variables and facts of the machine differ from worker to worker and from deploy to deploy",
        "give it to the workflow as an argument, read it in an activity, or record it with workflow.side_effect",
        pure_once=True,
    ),
    Rule(
        "io",
        "PD201",
        "files, network and processes answer differently on every replay, and an effect would happen again",
        "move it into an activity",
    ),
    Rule(
        "thread",
        "PD202",
        "threads and executors finish in an order that no history records",
        "move the work into an activity: sync activities run on a thread, process=True gives them a process",
    ),
    Rule(
        "blocking-sleep",
        "PD203",
        "time.sleep blocks the worker and is no timer: it is forgotten when the process dies",
        "use await asyncio.sleep(…), a durable timer",
    ),
    Rule(
        "print",
        "PD204",
        "what workflow code prints is printed again on every replay",
        "use workflow.logger, which is silent while replaying",
    ),
    Rule(
        "logging",
        "PD205",
        "what workflow code logs through a logger of its own is logged again on every replay",
        "use workflow.logger, which is silent while replaying",
    ),
    Rule(
        "set-order",
        "PD301",
        "sets of strings and of most objects iterate in another order in every process",
        "iterate sorted(…) of it, or keep a list or a dict",
        pure_once=True,
    ),
    Rule(
        "identity",
        "PD302",
        "id() and hash() differ from process to process",
        "use a key of your own, or a digest of the value",
        pure_once=True,
    ),
    Rule(
        "module-state",
        "PD303",
        "module state is shared by all runs of a worker, changed again by every replay and lost with the process",
        "keep it in local variables or on self of the workflow class",
    ),
    Rule(
        "replaying-branch",
        "PD304",
        "a decision that depends on whether the code replays is another one when it replays",
        "decide by what the history holds; for logging there is workflow.logger",
    ),
    Rule(
        "naive-datetime",
        "PD305",
        "a datetime without a time zone means another instant on every machine",
        "give it a time zone: datetime(…, tzinfo=UTC), fromtimestamp(…, UTC), astimezone(UTC)",
    ),
    Rule(
        "swallowed-cancel",
        "PD306",
        "this handler also catches asyncio.CancelledError and perdure's own signals, and the run goes on as if nobody had cancelled it",
        "catch Exception, or raise again at its end",
    ),
    Rule(
        "not-awaited",
        "PD307",
        "a call is a value: nothing is scheduled before it is awaited or made a task",
        "await it, or give it to a TaskGroup, asyncio.gather or asyncio.create_task",
    ),
    Rule(
        "activity-body",
        "PD308",
        "`.fn` is the bare function: its effect happens inside the workflow and again on every replay",
        "await the activity itself",
    ),
)

RULES: Final[dict[str, Rule]] = {rule.name: rule for rule in _ALL}

_KEYS: Final[dict[str, str]] = {key.lower(): rule.name for rule in _ALL for key in (rule.name, rule.code)}


def named(keys: Iterable[str], option: str) -> frozenset[str]:
    """The rules that `keys` mean: names or codes, in any case. Raises `InvalidArgument` for one there is not."""
    found: set[str] = set()
    for key in keys:
        name = _KEYS.get(key.strip().lower())
        if name is None:
            raise InvalidArgument(f"{option}: there is no rule {key.strip()!r}; there are {', '.join(RULES)}")
        found.add(name)
    return frozenset(found)


def ignored(texts: Iterable[str]) -> frozenset[str]:
    """The rules a comment names; unknown ones are none, so that a comment outlives a rule."""
    return frozenset(_KEYS[key] for text in texts if (key := text.strip().lower()) in _KEYS)
