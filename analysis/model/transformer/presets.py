"""The transformers known by name, read from `transformers.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from analysis.model.transformer.config import Config
from hardware import file_access
from hardware.records import convert_record

_FILE = Path(__file__).with_name("transformers.toml")
_NOT_MODELS = ("families",)


class Preset(msgspec.Struct, frozen=True):
    """A published model. `parameters` is the exact count by its authors, None if they only state a rounded one.
    `stored` is the precision of the published weights, '' for 16 bit."""

    name: str
    config: Config
    source: str
    parameters: int | None
    stored: str


def names() -> list[str]:
    """Return the names of all presets."""
    return [name for name in file_access.shipped(_FILE) if name not in _NOT_MODELS]


@cache
def preset(name: str) -> Preset:
    """Return the preset of a name."""
    row = file_access.shipped(_FILE)[name]
    config = family(row["like"]) if "like" in row else {}
    full = convert_record(_FILE, name, config | row["config"], Config)
    return Preset(name, full, row["source"], row.get("parameters"), row.get("stored", ""))


def family(name: str) -> dict[str, Any]:
    """Return the fields of a Config that the models of a family share."""
    return dict(file_access.shipped(_FILE)["families"][name])
