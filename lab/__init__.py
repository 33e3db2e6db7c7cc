"""The laboratory: fits of the shipped constants to measured rows, benchmarks, and scripts that make shipped files.

It is in no wheel, may import everything, and nothing but tests imports it. README.md says what each script is for."""

import tomllib
from importlib import metadata
from pathlib import Path

from hardware.base import plugins

SUPERSEDED = Path(__file__).with_name("superseded_runtimes.toml")


def load_superseded_runtimes() -> None:
    """Add the runtimes of earlier years to those of this process, as a plug-in adds its own."""
    for name in tomllib.loads(SUPERSEDED.read_text(encoding="utf-8"))["runtimes"]:
        point = metadata.EntryPoint(name, "lab:SUPERSEDED", "hwexplorer.runtimes")
        plugins.entry_points("runtimes")[name] = point
