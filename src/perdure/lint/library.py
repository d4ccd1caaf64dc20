"""Finds and keeps the files: by path, by dotted name, and what they import from the same project. Reads text, imports nothing."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure.core.errors import InvalidArgument
from perdure.lint.source import Source


class Library:
    """Every file read so far. `folders` is where dotted names are looked for, in order."""

    def __init__(self, folders: list[Path] | None = None) -> None:
        here = Path.cwd()
        self._folders = folders if folders is not None else [here, here / "src", *map(Path, filter(None, sys.path))]
        self._by_path: dict[Path, Source] = {}
        self._missing: set[tuple[Path, str]] = set()

    def asked(self, module: str) -> Iterator[Source]:
        """What a MODULE argument means: one file, or every file of a package or folder. Raises `InvalidArgument` for nothing."""
        path = Path(module)
        if module.endswith(".py") or path.is_dir() or "/" in module or "\\" in module:
            if not path.exists():
                raise InvalidArgument(f"there is no file {module}")
            found = path
        else:
            located = self._locate(module, self._folders)
            if located is None:
                raise InvalidArgument(f"there is no module {module} (looked in {Path.cwd()} and where Python looks)")
            found = located.parent if located.name == "__init__.py" else located
        files = sorted(found.rglob("*.py")) if found.is_dir() else [found]
        if not files:
            raise InvalidArgument(f"there is no .py file in {module}")
        yield from (self._read(file) for file in files)

    def imported(self, source: Source, name: str) -> tuple[Source, str] | None:
        """The file of the same project that holds the dotted `name`, and what is left of it: `shop.prices.total` → (file, `total`)."""
        parts = name.split(".")
        folder = self._root(source)
        for count in range(len(parts) - 1, 0, -1):
            module = ".".join(parts[:count])
            if (folder, module) in self._missing:
                continue
            located = self._locate(module, [folder])
            if located is not None:
                # A file that cannot be read is an error only for who asked for it by name.
                with contextlib.suppress(InvalidArgument):
                    return self._read(located), ".".join(parts[count:])
            self._missing.add((folder, module))
        return None

    def is_logger(self, source: Source, name: str) -> bool:
        """True when the dotted `name`, as `source` means it, is a logger that a file of the project keeps."""
        own = name.removeprefix(f"{source.name}.")
        if own != name:
            return own in source.loggers
        located = self.imported(source, name)
        return located is not None and located[1] in located[0].loggers

    def _root(self, source: Source) -> Path:
        """The folder from which the project's dotted names count."""
        depth = source.name.count(".") + (1 if source.path.name == "__init__.py" else 0)
        return source.path.parents[min(depth, len(source.path.parents) - 1)]

    def _locate(self, module: str, folders: list[Path]) -> Path | None:
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        for folder in folders:
            base = folder.joinpath(*parts)
            for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
                if file.is_file():
                    return file
        return None

    def _read(self, path: Path) -> Source:
        key = path.resolve()
        source = self._by_path.get(key)
        if source is None:
            try:
                text = path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidArgument(f"{path} cannot be read: {error}") from error
            source = self._by_path[key] = Source(key, _dotted_name(key), text, shown=_shown(key))
        return source


def _shown(path: Path) -> str:
    """As people would type it: relative to where they are."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _dotted_name(path: Path) -> str:
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts) or path.parent.name
