"""The table of terms (terms.toml), which the screen, HTML and docs/terms.md use."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hardware.base.file_access import shipped

if TYPE_CHECKING:
    from analysis.document import Column

_FILE = Path(__file__).with_suffix(".toml")


def groups() -> dict[str, dict[str, str]]:
    """Return heading -> term -> meaning, in the order of the file."""
    groups: dict[str, dict[str, str]] = shipped(_FILE)["terms"]
    return groups


@lru_cache(1)
def meanings() -> dict[str, str]:
    """Return term -> meaning, in the order of the file."""
    return {name: says for terms in groups().values() for name, says in terms.items()}


def term_of_key(key: str) -> str:
    """Return the meaning of a column of this key; '' if no term explains it."""
    return meanings().get(shipped(_FILE)["columns"].get(key, key), "")


def column_meaning(column: Column) -> str:
    """Return the meaning of a column: its own help, else its term."""
    return column.help or term_of_key(column.key)


def describe_column(column: Column) -> str:
    """Return the title and the meaning of a column, for a line of its own."""
    says = column_meaning(column)
    return f"{column.title}: {says}" if says else column.title


def sections() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return headed lines, `name<tab>meaning`."""
    return tuple((heading, tuple(map("\t".join, terms.items()))) for heading, terms in groups().items())
