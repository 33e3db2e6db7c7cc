"""A row of any measured table as a request."""

from __future__ import annotations

from pathlib import Path

from analysis.annexes.machine import language, measurement
from analysis.annexes.machine.measurement import Measurement


def interpret(row: dict[str, str], folders: tuple[Path, ...] = ()) -> Measurement:
    """What the row asks of the estimate. Raises Unpredictable with the reason."""
    return language.interpret(row, folders) if "phase" in row else measurement.interpret(row, folders)
