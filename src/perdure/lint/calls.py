"""Which rule a call breaks, by the full dotted name of what is called."""

from typing import Final

LOGGERS: Final = frozenset({"logging.getLogger", "logging.Logger"})
"""What makes a logger of the standard library."""

LOG_METHODS: Final = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"})
"""Of a logger, and of `logging` itself."""

_EXACT: Final[dict[str, str]] = {f"logging.{method}": "logging" for method in LOG_METHODS} | {
    "datetime.datetime.now": "clock",
    "datetime.datetime.today": "clock",
    "datetime.datetime.utcnow": "clock",
    "datetime.date.today": "clock",
    "time.sleep": "blocking-sleep",
    "print": "print",
    "builtins.print": "print",
    "pprint.pprint": "print",
    "id": "identity",
    "hash": "identity",
    "builtins.id": "identity",
    "builtins.hash": "identity",
    "open": "io",
    "builtins.open": "io",
    "io.open": "io",
    "input": "io",
    "os.urandom": "chance",
    "os.getrandom": "chance",
    "random.SystemRandom": "chance",
    "os.getenv": "environment",
    "os.getpid": "environment",
    "os.getppid": "environment",
    "os.getcwd": "environment",
    "os.cpu_count": "environment",
    "os.uname": "environment",
    "os.getlogin": "environment",
    "socket.gethostname": "environment",
    "getpass.getuser": "environment",
    "pathlib.Path.home": "environment",
    "pathlib.Path.cwd": "environment",
    "asyncio.to_thread": "thread",
    "asyncio.run_coroutine_threadsafe": "thread",
    "anyio.to_thread.run_sync": "thread",
    "anyio.from_thread.run": "thread",
    "asyncio.open_connection": "io",
    "asyncio.open_unix_connection": "io",
    "asyncio.start_server": "io",
    "asyncio.start_unix_server": "io",
    "asyncio.create_subprocess_exec": "io",
    "asyncio.create_subprocess_shell": "io",
}

_PREFIXES: Final[dict[str, str]] = {
    "secrets": "chance",
    "numpy.random": "chance",
    "uuid_utils": "chance",
    "platform": "environment",
    "threading": "thread",
    "_thread": "thread",
    "multiprocessing": "thread",
    "concurrent.futures": "thread",
} | dict.fromkeys(
    (
        "os", "socket", "subprocess", "shutil", "tempfile", "glob", "fileinput", "webbrowser", "ssl", "select", "mmap",
        "urllib.request", "http.client", "smtplib", "ftplib", "imaplib", "poplib", "telnetlib", "xmlrpc.client", "sqlite3", "dbm", "shelve",
        "requests", "httpx", "aiohttp", "urllib3", "websockets", "grpc", "aiofiles", "paramiko",
        "psycopg", "psycopg2", "asyncpg", "aiosqlite", "pymysql", "aiomysql", "pymongo", "motor", "redis", "boto3", "aioboto3",
        "aio_pika", "pika", "kafka", "aiokafka",
    ),
    "io",
)  # fmt: skip

_PURE_OS: Final = frozenset(
    {
        "os.fspath", "os.fsencode", "os.fsdecode", "os.strerror", "os.path.join", "os.path.basename", "os.path.dirname",
        "os.path.split", "os.path.splitext", "os.path.normpath", "os.path.normcase", "os.path.commonpath", "os.path.commonprefix",
        "os.path.isabs", "os.path.splitdrive", "subprocess.list2cmdline", "glob.escape", "socket.inet_aton", "socket.htons",
    }
)  # fmt: skip

FILE_METHODS: Final = frozenset(
    {
        "read_text",
        "write_text",
        "read_bytes",
        "write_bytes",
        "iterdir",
        "rglob",
        "is_file",
        "is_dir",
        "is_symlink",
        "unlink",
        "mkdir",
    }
)
"""Methods that only paths have, whatever they are called on."""

PATH_METHODS: Final = FILE_METHODS | frozenset(
    {"open", "exists", "touch", "glob", "stat", "lstat", "rename", "replace", "resolve", "rmdir", "chmod", "expanduser", "samefile",
     "owner", "walk", "copy", "move"}
)  # fmt: skip
"""Methods of a path that ask or change the disk: looked for where a value is known to be a path."""

PATHS: Final = frozenset({"pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath"})

THREAD_METHODS: Final = frozenset({"run_in_executor", "call_soon_threadsafe"})

_RANDOM: Final = (
    "betavariate", "choice", "choices", "expovariate", "gammavariate", "gauss", "getrandbits", "lognormvariate", "normalvariate",
    "paretovariate", "randbytes", "randint", "random", "randrange", "sample", "shuffle", "triangular", "uniform", "vonmisesvariate",
    "weibullvariate",
)  # fmt: skip
_CLOCKS: Final = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time")

EARLY: Final = frozenset(
    [f"random.{name}" for name in _RANDOM]
    + [f"time.{name}" for name in (*_CLOCKS, "localtime", "gmtime", "ctime", "strftime")]
    + [f"uuid.{name}" for name in ("uuid1", "uuid4", "uuid6", "uuid7")]
    + ["asyncio.wait", "asyncio.as_completed"]
)
"""Functions that give workflow code the run's own values, but only where they are looked up in their module."""

NEVER_ALONE: Final = frozenset(
    f"{module}.{name}"
    for module, names in {
        "asyncio": ("sleep", "wait", "wait_for"),
        "perdure.workflow": ("sleep", "sleep_until", "receive", "wait_until", "start_child"),
        "perdure.sdk.workflow.workflow": ("sleep", "sleep_until", "receive", "wait_until", "start_child"),
    }.items()
    for name in names
)
"""Coroutine functions that do nothing when their result is dropped."""


def rule_of(name: str) -> str:
    """The rule that calling `name` breaks; empty for none. Exceptions may be made of any library."""
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    if name in _PURE_OS or name.endswith(("Error", "Exception", "Warning")):
        return ""
    if name.startswith("os.environ."):
        return ""  # reported where `os.environ` itself is read
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((rule for prefix in prefixes if (rule := _PREFIXES.get(prefix))), "")
