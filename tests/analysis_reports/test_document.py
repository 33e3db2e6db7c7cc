"""A report is columns: a field is declared once; JSON, CSV and tables follow from it."""

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, columns, record, records


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A row."""

    id: Annotated[str, column("Node", key="name")]
    energy_j: Annotated[float, column("Energy", "J", keep=1)]
    fraction: Annotated[float, column("Share", "%", key="bar", role="bar"), column("%", "%")]
    note: str = ""


class Source(msgspec.Struct, frozen=True):
    """Arrays of the same names, shape (n,)."""

    energy_j: np.ndarray[tuple[int], np.dtype[np.float64]]
    fraction: np.ndarray[tuple[int], np.dtype[np.float64]]


SOURCE = Source(np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.2, 0.3]))


def test_columns_follow_from_the_declarations_of_fields() -> None:
    found = columns(Part)
    assert [(c.key, c.title, c.unit, c.role, c.keep, c.of) for c in found] == [
        ("name", "Node", "", "text", 0, "id"),
        ("energy", "Energy", "J", "number", 1, "energy_j"),
        ("bar", "Share", "%", "bar", 0, "fraction"),
        ("fraction", "%", "%", "number", 0, "fraction"),
    ]
    assert [name for c in found for name in c.si_names] == ["name", "energy_j", "bar", "fraction"]


def test_a_table_chooses_and_changes_columns() -> None:
    energy, name = columns(Part, "energy name", within="part", energy={"title": "E"})
    assert (energy.title, energy.of, name.of) == ("E", "part.energy_j", "part.id")


def test_records_are_built_from_arrays_by_name() -> None:
    rows = records(Part, SOURCE, rows=np.array([0, 2]), id=["a", "c"], note="heaviest")
    assert [msgspec.to_builtins(row) for row in rows] == [
        {"id": "a", "energy_j": 3.0, "fraction": 0.5, "note": "heaviest"},
        {"id": "c", "energy_j": 2.0, "fraction": 0.3, "note": "heaviest"},
    ]
    assert records(Part, Source(np.zeros(0), np.zeros(0)), id=[]) == ()


def test_a_record_takes_attributes_of_the_first_source_that_has_them() -> None:
    other = Part(id="x", energy_j=1.0, fraction=0.1)
    assert record(Part, other, id="y") == Part(id="y", energy_j=1.0, fraction=0.1)
