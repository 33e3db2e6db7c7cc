"""The fields of a `Config` that the models of a family share, read from `transformers.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardware import file_access

FILE = Path(__file__).with_name("transformers.toml")


def family(name: str) -> dict[str, Any]:
    """Return the fields of a Config that the models of a family share."""
    return dict(file_access.shipped(FILE)["families"][name])
