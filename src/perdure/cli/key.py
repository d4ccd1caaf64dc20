"""`perdure key`: API keys for a node's configuration. A key is made here, shown once and kept nowhere."""

from typing import Final, Literal

from cyclopts import App

from perdure.cli.exits import OK
from perdure.cli.options import Output

app: Final = App(name="key", help="Make API keys.")
TEXT: Final = Output()


@app.command
def create(*, name: str, role: Literal["admin", "operator", "read-only", "worker"], output: Output = TEXT) -> int:
    """Make a key: it is printed this once, with the lines by which a node knows it (a hash: the key cannot be had back from it).

    Args:
        name: Whose key it is; shown where the node says who did something.
        role: What its bearer may do: everything, operate runs, only look, or work.
    """
    from perdure.cli.show import emit, text
    from perdure.core.errors import InvalidArgument
    from perdure.runtime.api_key import hash_of, new_api_key
    from perdure.runtime.settings.loading import is_key_name

    if not is_key_name(name):
        raise InvalidArgument(f"--name is up to 64 letters, digits, - and _, and not 'local'; {name!r} is none")
    key = new_api_key()
    if output.is_json:
        emit({"name": name, "role": role, "key": key, "hash": hash_of(key)}, output.output)
        return OK
    text("# The key, shown this once. Its bearer gives it as PERDURE_API_KEY.")
    text(key)
    text("# For the configuration file of the node:")
    text(f"[access.keys.{name}]")
    text(f'hash = "{hash_of(key)}"')
    text(f'role = "{role}"')
    return OK
