"""Queries that find rows by words and conditions, `conv kind:conv share>5 bound:memory latency>1ms`.

Words are searched in names and keys. If no row contains all of them, their letters are matched in order (`l3c2` finds
layer3.0.conv2). Conditions compare a column by its key or title; percentages and SI prefixes are understood.
"""

import re
from collections.abc import Callable

import msgspec

from analysis.document import Column
from analysis.explore.constraint import COMPARISONS
from hardware.base.errors import RequestError, matching_places, unknown
from hardware.base.records import memoize
from hardware.base.text import parse_amount, percent
from hwexplorer.views.plain import Row, Table
from hwexplorer.views.table_tree import index_tree

_CONDITION = r"([A-Za-z_][\w%]*)(:|>=|<=|!=|>|<|=)(.+)"
Test = Callable[[Row], bool]
HINT = "words · kind:conv share>5 bound:memory latency>1ms"


def plain_words(text: str) -> list[str]:
    """Return the words of a query that are not conditions, for marking them in names."""
    return [word for word in text.split() if not re.fullmatch(_CONDITION, word)]


def ends_in_condition(text: str) -> bool:
    """Return True if the last word of a text is a condition."""
    return re.fullmatch(_CONDITION, text.rpartition(" ")[2].rpartition(",")[2]) is not None


def parse_value(text: str, unit: str) -> float:
    """Return an amount in SI units: `5` in a percentage column is 0.05, `1ms` is 0.001. Raises RequestError."""
    amount = parse_amount(text.removesuffix("%"), "") / 100 if unit == "%" else parse_amount(text, unit)
    return float(f"{amount:.15g}")  # rounded, so that 100us is exactly 1e-4


def _column(table: Table, name: str) -> int:
    wanted = name.casefold()
    for index, column in enumerate(table.columns):
        if wanted in (column.key.casefold(), column.title.casefold()):
            return index
    for index, column in enumerate(table.columns):
        if (wanted == "share" and column.role == "bar") or column.key == f"{wanted}_per_inference":
            return index
    known = [column.key for column in table.columns[1:] if column.role != "bar"]
    raise unknown("column", name, ["kind", "share", *known])


def _condition(table: Table, name: str, sign: str, wanted: str) -> Test:
    if name.casefold() in ("kind", "type"):
        sought = wanted.casefold()
        if sign not in (":", "=", "!="):
            raise RequestError(f"{name}{sign}{wanted}: kind takes a colon, as in kind:conv")
        return lambda row: (sought in row.kind.casefold()) != (sign == "!=")
    index = _column(table, name)
    column: Column = table.columns[index]
    numeric = column.role != "text"
    if sign == ":" and not (numeric and re.match(r"[-.0-9]", wanted)):
        sought = wanted.casefold()
        return lambda row: sought in str(row.cells[index] or "").casefold()
    if not numeric:
        sought = wanted.casefold()
        if sign not in ("=", "!="):
            raise RequestError(f"{name}{sign}{wanted}: {name} holds words, ask {name}:{wanted}")
        return lambda row: (sought in str(row.cells[index] or "").casefold()) != (sign == "!=")
    compare = COMPARISONS["=" if sign == ":" else sign]
    least = parse_value(wanted, "%" if column.role == "bar" else column.unit)

    def test(row: Row) -> bool:
        """Return True if the row's cell meets the condition."""
        cell = row.cells[index]
        return isinstance(cell, int | float) and compare(float(cell), least)

    return test


@memoize(keep=4)
def matching_rows(table: Table, text: str) -> tuple[int, ...]:
    """Return the indices of the matching rows, in order. Raises RequestError for a wrong condition."""
    words = " ".join(plain_words(text))
    parts = (re.fullmatch(_CONDITION, word) for word in text.split())
    tests = [_condition(table, part[1], part[2], part[3]) for part in parts if part is not None]
    if not words and not tests:
        return ()
    places = [place for place, row in enumerate(table.rows) if (not tests or place) and all(t(row) for t in tests)]
    names = [f"{table.rows[place].cells[0]}\n{table.rows[place].key}" for place in places]
    return tuple(places[match] for match in matching_places(words, names))


@memoize(keep=4)
def narrow_tree(table: Table, text: str) -> tuple[Table, str]:
    """Return the rows of a tree that match with all branches above them, and how many match with their share of the
    whole: `14 of 49 rows, 23 %`. Raises RequestError for a wrong condition."""
    index, places = index_tree(table), matching_rows(table, text)
    found = {table.rows[place].key for place in places}
    above = set[str]().union(*map(index.ancestors, found))
    share = sum(index.share(key) for key in found if not index.ancestors(key) & found)
    rows = tuple(
        msgspec.structs.replace(row, has_children=row.key in above) for row in table.rows if row.key in found | above
    )
    return msgspec.structs.replace(table, rows=rows), f"{len(found)} of {len(table.rows)} rows, {percent(share)}"
