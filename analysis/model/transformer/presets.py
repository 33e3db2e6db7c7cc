"""The transformers known by name, read from `transformers.toml`."""

from functools import cache

import msgspec

from analysis.model.transformer.config import FAMILIES as _FILE
from analysis.model.transformer.config import Config, family
from hardware.base import file_access
from hardware.base.file_access import convert_record

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


def source(name: str) -> str:
    """Return the source of a preset."""
    text: str = file_access.shipped(_FILE)[name]["source"]
    return text


@cache
def preset(name: str) -> Preset:
    """Return the preset of a name. Its row states the fields of a Config, or as `hub` those of a config.json."""
    row = file_access.shipped(_FILE)[name]
    if "hub" in row:
        from analysis.model.transformer.hf_config import parse_config  # not needed for most presets

        full = parse_config(row["hub"])
        full = msgspec.structs.replace(full, wide=tuple(row.get("wide", full.wide)))
    else:
        config = family(row["like"]) if "like" in row else {}
        full = convert_record(_FILE, name, config | row["config"], Config)
    return Preset(name, full, row["source"], row.get("parameters"), row.get("stored", ""))
