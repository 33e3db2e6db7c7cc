"""The table of terms (terms.toml), which the screen, HTML and docs/terms.md use."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hardware.base.file_access import read_list

if TYPE_CHECKING:
    from analysis.document import Column


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A term and its meaning. `keys` are columns that it explains if they have no help."""

    name: str
    says: str
    keys: tuple[str, ...] = ()


class TermGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The terms under a heading, `name`."""

    name: str
    term: tuple[Term, ...]


@lru_cache(1)
def groups() -> tuple[TermGroup, ...]:
    """Return all terms by heading, in the order of the file."""
    return read_list(Path(__file__).with_suffix(".toml"), "group", TermGroup)


def terms() -> tuple[Term, ...]:
    """Return all terms, in the order of the file."""
    return tuple(term for group in groups() for term in group.term)


def term_of_key(key: str) -> str:
    """Return the meaning of a column of this key; '' if no term has the key."""
    return next((term.says for term in terms() if key in term.keys), "")


def column_meaning(column: Column) -> str:
    """Return the meaning of a column: its own help, else its term."""
    return column.help or term_of_key(column.key)


def describe_column(column: Column) -> str:
    """Return the title and the meaning of a column, for a line of its own."""
    says = column_meaning(column)
    return f"{column.title}: {says}" if says else column.title


def sections() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return headed lines, `name<tab>meaning`."""
    return tuple((group.name, tuple(f"{term.name}\t{term.says}" for term in group.term)) for group in groups())
