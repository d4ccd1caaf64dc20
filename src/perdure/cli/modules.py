"""MODULE arguments: a dotted name, or a path to a `.py` file, imported as its author would expect.

Whatever an import does wrong (a missing name, a syntax error, an exception of its own, an exit) becomes one `InvalidArgument`.
"""

import importlib
import os
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from perdure.core.errors import InvalidArgument


def load(text: str) -> ModuleType:
    """Import what MODULE names. Raises `InvalidArgument` in one line that says what is wrong and where."""
    try:
        return _by_path(Path(text)) if _is_path(text) else _by_name(text)
    except InvalidArgument:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InvalidArgument(f"importing {text} failed: {_in_words(error)}") from error


def _is_path(text: str) -> bool:
    return text.endswith(".py") or os.sep in text


def _by_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidArgument(f"{name!r} is neither a module's dotted name nor a path to a .py file")
    _first_on_path(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidArgument(f"there is no module {name} (looked in {Path.cwd()} and where Python looks)") from error
        raise


def _by_path(path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise InvalidArgument(f"{path} is no .py file")
    if not path.is_file():
        raise InvalidArgument(f"there is no file {path}")
    path = path.resolve()
    if (path.parent / "__init__.py").is_file():
        return _of_package(path)
    _first_on_path(path.parent)
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if known is not None or name in sys.stdlib_module_names:
        raise InvalidArgument(f"{path.name} has the name of another module ({name}): rename the file")
    return _executed(name, path)


def _of_package(path: Path) -> ModuleType:
    """A file of a package is imported under its full name, so that it is the same module for everyone."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    _first_on_path(folder)
    return importlib.import_module(".".join(parts))


def _executed(name: str, path: Path) -> ModuleType:
    """Import a file whatever its name: `01_orders.py` is a fine one, though no `import` statement can say it."""
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _first_on_path(folder: Path) -> None:
    text = str(folder)
    if text not in sys.path:
        sys.path.insert(0, text)


def _in_words(error: BaseException) -> str:
    """Class, message and the line at fault, on one line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"
