"""What the operators are called, by length: a report of one file."""

from __future__ import annotations

from typing import Annotated

import msgspec

from analysis.document import column, columns
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Rows, Section, summary_text
from hwexplorer.options import option, whole
from hwexplorer.state import State


class Word(msgspec.Struct, frozen=True):
    name: Annotated[str, column("Name")]
    letters: Annotated[int, column("Letters", "count", help="of the name")]
    energy_j: Annotated[float, column("Energy", "J", keep=1)]


class Words(msgspec.Struct, frozen=True):
    longest: int
    words: tuple[Word, ...]


def _document(state: State, least: int) -> Words:
    result = engine.result(state)
    energies = zip(result.partition.operator_id, result.run.energy_j.tolist(), strict=True)
    words = tuple(Word(name, len(name), energy) for name, energy in energies if len(name) >= least)
    return Words(max((word.letters for word in words), default=0), words)


VERB = Report(
    subject=NODE,
    options=(option("--least", type=whole(1, 100), default=1, metavar="N", help="letters"),),
    document=_document,
    title=lambda found, state: f"Names in {state.model}",
    parts=(
        summary_text(lambda found, state: (f"the longest has {found.longest} letters",)),
        Rows("words", "Names", columns(Word)),
    ),
    section=Section(95, "What it is called"),
    examples={"words": "conv2d --on h100_sxm --least 4"},
)
