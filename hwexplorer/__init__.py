"""hwexplorer: what neural networks cost on hardware, and why, in a terminal.

In a notebook `hwexplorer.capture(model, example_inputs)` makes a workload of a torch module and shows what it costs.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`capture` is loaded when it is asked for: a terminal opens without it."""
    if name == "capture":
        from analysis import capture

        return capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
