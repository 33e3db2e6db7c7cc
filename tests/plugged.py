"""Packages of others, on the path with their entry points while a test runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardware import known_architectures
from hardware.base import plugins
from hardware.engines.runtime import runtime_names, runtimes


@contextmanager
def plug_in(folder: Path, **kinds: dict[str, str]) -> Iterator[None]:
    """Put a folder on the path, with the metadata of a package that has these entry points."""
    write_metadata(folder, **kinds)
    sys.path.insert(0, str(folder))
    forget()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        forget()


def write_metadata(folder: Path, **kinds: dict[str, str]) -> None:
    metadata = folder / "stranger-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    groups = (
        f"[hwexplorer.{kind}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for kind, points in kinds.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))


def forget() -> None:
    """Read entry points anew."""
    for cached in (plugins.entry_points, plugins.warn, runtimes, runtime_names):
        cached.cache_clear()
    known_architectures.ALL._plugged.clear()
