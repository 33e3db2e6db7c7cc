"""What a model costs on a device. `analysis.capture(model, example_inputs)` makes a workload of a torch module."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """`capture` is a package that can be called; it is loaded when asked for, and imports torch when called."""
    if name == "capture":
        return importlib.import_module("analysis.capture")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
