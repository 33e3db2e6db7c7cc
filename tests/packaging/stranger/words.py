"""What the operators are called, by length: a report of one file."""

from typing import Annotated

import msgspec

from hwexplorer.extend import declare, document, engine, options, state


class Word(msgspec.Struct, frozen=True):
    name: Annotated[str, document.column("Name")]
    letters: Annotated[int, document.column("Letters", "count", help="of the name")]
    energy_j: Annotated[float, document.column("Energy", "J", keep=1)]


class Words(msgspec.Struct, frozen=True):
    longest: int
    words: tuple[Word, ...]


def _document(here: state.State, least: int) -> Words:
    result = engine.result(here)
    energies = zip(result.partition.operator_id, result.run.energy_j.tolist(), strict=True)
    words = tuple(Word(name, len(name), energy) for name, energy in energies if len(name) >= least)
    return Words(max((word.letters for word in words), default=0), words)


VERB = declare.Report(
    subject=declare.NODE,
    options=(options.option("--least", type=options.whole(1, 100), default=1, metavar="N", help="letters"),),
    document=_document,
    title=lambda found, here: f"Names in {here.model}",
    parts=(
        declare.summary_text(lambda found, here: (f"the longest has {found.longest} letters",)),
        declare.Rows("words", "Names", document.columns(Word)),
    ),
    section=declare.Section(95, "What it is called"),
    examples={"words": "conv2d --on h100_sxm --least 4"},
)
