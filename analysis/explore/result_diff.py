"""What changed between two results: figures, operators, and the place where most of it is.

Operators are the same where their ids are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.metrics import CHANGING, METRICS
from analysis.explore.rules import Finding, coverage_findings
from analysis.explore.saved_result import Result, Side
from hardware.errors import RequestError, unknown
from hardware.quantity import Unit

# Those that are sums over operators.
PARTS = ("energy", "latency", "macs")
_WHOLE = 0.995  # of a change: as good as all of it
_MOSTLY = 0.5  # of a change: below, it is not said where it is
_SAME = 1e-9  # relative: below this a difference is rounding


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A figure. `change` is the difference over `before`, None where that is 0; `where` says where most of it is."""

    figure: str
    title: Annotated[str, column("Figure", key="figure")]
    unit: Unit
    before: float
    after: float
    difference: float
    change: Annotated[float | None, column("Change", role="delta")]
    where: Annotated[str, column("Where", keep=1)]


class Kind(msgspec.Struct, frozen=True):
    """How many operators of a type there were and are."""

    type: Annotated[str, column("Operators")]
    before: Annotated[int, column("Before", "count")]
    after: Annotated[int, column("After", "count")]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that is not as it was: `how` is 'added', 'removed' or 'changed'. Differences, SI."""

    id: Annotated[str, column("Operator")]
    type: Annotated[str, column("Kind", keep=2)]
    how: Annotated[str, column("", help="added, removed or changed")]
    energy_j: Annotated[float, column("Energy/inf", "J", role="quantity")]
    latency_s: Annotated[float, column("Latency", "s", role="quantity")]
    macs: Annotated[float, column("MACs", "MAC", role="quantity", keep=1)]


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer diff`. `notes` say what the sides do not have in common; `says` is the sentence for
    each figure that changed."""

    before: Side
    after: Side
    changes: tuple[Changed, ...]
    operators: tuple[Kind, ...]
    places: tuple[Place, ...]
    notes: tuple[str, ...]
    holds: bool
    findings: tuple[Finding, ...]

    @property
    def incomplete(self) -> str:
        """Why the figures of a side are not its model's; '' where they are."""
        return "; ".join(dict.fromkeys(side.incomplete for side in (self.before, self.after) if side.incomplete))


def diff(before: Result, after: Result, rules: Callable[[Changes], tuple[Finding, ...]]) -> Diff:
    """Everything that differs. `rules` are held against the changes; a side whose work has too few cost rules breaks
    one by itself."""
    changes = Changes(before, after)
    gaps = ((side.coverage, side.incomplete and f"{side.model}: {side.incomplete}") for side in (before, after))
    findings = (*rules(changes), *(finding for share, gap in gaps for finding in coverage_findings(share, gap)))
    kinds = [Counter(part.type for part in side.parts) for side in (before, after)]
    differing = [name for name in ("model", "device", "batch", "precision", "execution")
                 if getattr(before, name) != getattr(after, name)]  # fmt: skip
    notes = [f"{name}: {getattr(before, name)} before, {getattr(after, name)} after" for name in differing]
    missing = [METRICS[name].noun for name in CHANGING if (name in before.figures) != (name in after.figures)]
    return Diff(
        before=_side(before),
        after=_side(after),
        changes=tuple(changes.of(name) for name in CHANGING if name in before.figures and name in after.figures),
        operators=tuple(
            Kind(name, kinds[0][name], kinds[1][name])
            for name in sorted(kinds[0] | kinds[1])
            if kinds[0][name] != kinds[1][name] and before.parts and after.parts
        ),
        places=changes.places(),
        notes=(*notes, *(f"one side alone says its {title}" for title in missing)),
        holds=all(finding.holds for finding in findings),
        findings=findings,
    )


def _side(result: Result) -> Side:
    return Side(**{name: getattr(result, name) for name in Side.__struct_fields__})


class Changes:
    """Two sides, and what there is to ask of them."""

    def __init__(self, before: Result, after: Result) -> None:
        self.before, self.after = before, after
        self._old = {part.id: part for part in before.parts}
        self._new = {part.id: part for part in after.parts}
        self._placed = bool(before.parts and after.parts)

    def of(self, figure: str) -> Changed:
        """What became of a figure. Raises RequestError where a side does not have it."""
        title, unit = METRICS[figure].noun, METRICS[figure].unit
        for side in (self.before, self.after):
            if figure not in side.figures:
                raise RequestError(f"the file of {side.model} has no {title}: that of `hwexplorer report` has all")
        a, b = self.before.figures[figure], self.after.figures[figure]
        same = abs(b - a) <= _SAME * max(a, b)
        return Changed(
            figure=figure,
            title=title,
            unit=unit,
            before=a,
            after=b,
            difference=0.0 if same else b - a,
            change=0.0 if same else relative(a, b),
            where="" if same or not self._placed else place(self._differences(figure), b - a),
        )

    def within(self, figure: str, pattern: str) -> float:
        """The change of the operators whose path matches, over what they were before; infinite where there was
        nothing. Raises RequestError."""
        if not pattern:
            changed = self.of(figure)
            return float("inf") if changed.change is None else changed.change
        if figure not in PARTS:
            raise unknown("figure of a part", figure, PARTS)
        sums = []
        for side in (self.before, self.after):
            matching = [p for p in side.parts if fnmatchcase(p.name, pattern) or fnmatchcase(p.id, pattern)]
            sums.append(sum(getattr(part, figure) for part in matching))
        if not self._placed or not any(sums):
            raise RequestError(f"no operator of either side matches {pattern!r}")
        change = relative(*sums)
        return float("inf") if change is None else change

    def _differences(self, figure: str) -> dict[str, float]:
        """By module path."""
        if figure not in PARTS:
            return {}
        sums: dict[str, float] = {}
        for sign, side in ((-1.0, self.before), (1.0, self.after)):
            for part in side.parts:
                sums[part.name] = sums.get(part.name, 0.0) + sign * getattr(part, figure)
        return sums

    def places(self) -> tuple[Place, ...]:
        """The operators that are not as they were, those of the largest difference of energy first."""
        if not self._placed:
            return ()
        places = []
        for id in dict.fromkeys((*self._old, *self._new)):
            old, new = self._old.get(id), self._new.get(id)
            how = "added" if old is None else "removed" if new is None else "changed"
            gone, came = ([getattr(p, name) if p else 0.0 for name in PARTS] for p in (old, new))
            is_same = all(abs(b - a) <= _SAME * max(a, b) for a, b in zip(gone, came, strict=True))
            types = dict.fromkeys(part.type for part in (old, new) if part)
            if how == "changed" and is_same and len(types) == 1:
                continue
            energy, latency, macs = (b - a for a, b in zip(gone, came, strict=True))
            kind = " -> ".join(types)
            places.append(Place(id=id, type=kind, how=how, energy_j=energy, latency_s=latency, macs=macs))
        return tuple(sorted(places, key=lambda each: (-abs(each.energy_j), -abs(each.latency_s))))


def relative(before: float, after: float) -> float | None:
    """The difference over what was before; None where that is nothing and something came."""
    if before == after:
        return 0.0
    return (after - before) / before if before else None


def place(differences: Mapping[str, float], total: float) -> str:
    """Where most of a change is: `all of it in layer3.2`, the deepest module that holds as much as those above it.
    '' where no module holds half of it."""
    prefix, share = "", 1.0
    while total:
        inside: dict[str, float] = {}
        for path, value in differences.items():
            if path.startswith(prefix):
                module = prefix + path[len(prefix) :].partition(".")[0]
                inside[module] = inside.get(module, 0.0) + value
        best = max(inside, key=lambda module: inside[module] / total, default="")
        of_it = inside.get(best, 0.0) / total
        if not best or best == prefix or of_it < (_WHOLE * share if prefix else _MOSTLY):
            break
        prefix, share = f"{best}.", of_it
    if not prefix:
        return ""
    amount = "more than all" if share > 1 / _WHOLE else "all" if share >= _WHOLE else f"{share * 100:.0f} %"
    return f"{amount} of it in {prefix[:-1]}"
