"""The pytest plugin: fixtures `perdure_env` and `perdure_replay`. Loaded by every pytest run of an environment that has perdure, so it
imports nothing of perdure's before a test asks for it.

`perdure_env` lives in the test's own coroutine: it is entered when the test begins and left when it ends, on whatever event loop runs the
test. So it works the same under pytest-asyncio and anyio; a plain `async def` test that no other plugin runs is run here.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from perdure.testing.replayed import Verdict
    from perdure.testing.virtual_environment import Environment

FIXTURE: Final = "perdure_env"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "perdure_env(**options): options of perdure.testing.environment for the fixture perdure_env"
    )


# -------------------------------------------------------------------------------------------------------------- perdure_env


class LateEnvironment:
    """What fixtures get for `perdure_env` before the test begins: `register` works at once, all else once the test runs."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._things: list[object] = []
        self._env: Environment | None = None

    def register(self, *things: object) -> None:
        """As `Environment.register`; kept until the test begins."""
        if self._env is not None:
            self._env.register(*things)
        else:
            self._things += things

    def __getattr__(self, name: str) -> Any:
        if self._env is None:
            raise AttributeError(
                f"perdure_env.{name}: the environment begins with the test; before that it can only register()"
            )
        return getattr(self._env, name)

    async def around(self, test: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Run `test` inside the environment."""
        from perdure.testing.virtual_environment import environment

        async with environment(**self._options) as env:
            env.register(*self._things)
            self._env = env
            try:
                return await test(**{name: env if value is self else value for name, value in arguments.items()})
            finally:
                self._env = None


@pytest.fixture
def perdure_env(request: pytest.FixtureRequest) -> Any:
    """A `perdure.testing.Environment` for an `async def` test: the real engine and worker on virtual time.

    Options come from `@pytest.mark.perdure_env(start=…, seed=…, …)`, the closest mark winning. Other fixtures may `register` on it.
    """
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(FIXTURE))):
        options |= mark.kwargs
    return LateEnvironment(options)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Put the environment around the test function, before any other plugin makes something else of it."""
    late = getattr(item, "funcargs", {}).get(FIXTURE)
    if not isinstance(late, LateEnvironment) or not isinstance(item, pytest.Function):
        return (yield)
    test = item.obj
    if not inspect.iscoroutinefunction(test):
        pytest.fail(f"{item.name} uses {FIXTURE}: it must be an `async def` test", pytrace=False)

    @wraps(test)
    async def inside(**arguments: Any) -> Any:
        return await late.around(test, arguments)

    item.obj = inside
    try:
        return (yield)
    finally:
        item.obj = test


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that uses `perdure_env` and that no other plugin takes."""
    if "anyio_backend" in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    if not isinstance(pyfuncitem.funcargs.get(FIXTURE), LateEnvironment):
        return None
    names = pyfuncitem._fixtureinfo.argnames  # pyright: ignore[reportPrivateUsage]
    with asyncio.Runner() as runner:
        runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


# ----------------------------------------------------------------------------------------------------------- perdure_replay


@pytest.fixture
def perdure_replay(request: pytest.FixtureRequest) -> "Callable[..., list[Verdict]]":
    """`perdure_replay("file.jsonl", module)`: the test fails unless `module` reproduces every run in the file.

    The path counts from the test's own folder, else from the folder pytest runs in. Workflows are given as modules, functions or classes;
    `strict=True` compares payload bytes too, which only the code that made the history can pass. Returns a verdict on each run.
    """

    def replay(history: str | Path, *code: object, strict: bool = False) -> "list[Verdict]":
        from perdure.sdk.registry import Registry
        from perdure.testing.replayed import exported_runs, in_words, verdict_on

        __tracebackhide__ = True
        registry = Registry()
        registry.register(*code)
        path = _found(Path(history), request.path.parent)
        verdicts = [verdict_on(registry, path, run, strict=strict) for run in exported_runs(path)]
        bad = [line for verdict in verdicts if verdict["verdict"] != "ok" for line in in_words(verdict)]
        if bad:
            pytest.fail("\n".join([f"{path} does not replay:", *bad]), pytrace=False)
        if not verdicts:
            pytest.fail(f"there is no run in {path}", pytrace=False)
        return verdicts

    return replay


def _found(path: Path, folder: Path) -> Path:
    beside = folder / path
    return beside if beside.exists() or path.is_absolute() else path
