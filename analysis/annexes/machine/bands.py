"""How wide bands have to be, from errors on devices and families of models that were left out.

A class of work has factors that hold 80 to 90 % of the rows of a device when they are taken from the other devices
(conformal quantiles of the logarithm of measured over predicted); a device that was measured often enough with a
runtime has its own, taken from the other families of models. Rows that the efficiencies were fitted to are predicted
by a fit that left out their device, or their family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.annexes.machine.errors import spearman
from analysis.annexes.machine.validate import LARGE, Point
from analysis.estimate.trust import ENGINEERING, Factors, Known, Measured, TrustTable, classes
from analysis.model.ir.workload import Floats

TARGET = 0.82  # of what was left out that a band is to hold; between 80 and 90 % is meant
LEAST = float(np.log(1.05))  # no band is narrower than measurements repeat
# What is tried for both ends at once (of each apart, the best by chance would be taken): this part of the weight of the
# errors lies beyond; they are so much (of a logarithm) beyond all of them.
TAILS = tuple(share / 100 for share in range(20, -1, -1))
BEYOND = tuple(share / 20 for share in range(1, 21))
FAMILIES = 3  # of models, from which a device has factors of its own

Axis = Literal["device", "family"]
AXES: tuple[Axis, ...] = ("device", "family")


class Residual(msgspec.Struct, frozen=True):
    """The logarithm of measured over predicted of one row: as shipped, and by fits that left out its device and its
    family."""

    point: Point
    own: float
    device: float
    family: float


def residuals(points: Iterable[Point], left_out: Callable[[Point], tuple[float, float] | None]) -> list[Residual]:
    """`left_out` gives the predictions of fits without the device and the family of a row, None where it was not
    fitted to."""
    rows = []
    for point in points:
        own = float(np.log(point.measured / point.predicted))
        out = left_out(point)
        device, family = (own, own) if out is None else (float(np.log(point.measured / each)) for each in out)
        rows.append(Residual(point, own, device, family))
    return rows


def ends(errors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the low and high factors that are tried for errors, from the nearest to the furthest."""
    order = np.argsort(errors)
    ordered, upto = errors[order], np.cumsum(weights[order]) / weights.sum()
    last = len(errors) - 1
    low = ordered[np.searchsorted(upto, TAILS, "right").clip(0, last)]
    high = ordered[np.searchsorted(upto, 1.0 - np.array(TAILS), "left").clip(0, last)]
    low = np.concatenate([np.minimum(low, -LEAST), min(low[-1], -LEAST) - np.array(BEYOND)])
    high = np.concatenate([np.maximum(high, LEAST), max(high[-1], LEAST) + np.array(BEYOND)])
    return low, high


def coverage(rows: Sequence[Residual], axis: Axis) -> Floats | None:
    """The weight of rows inside factors taken without those of their device or family, for each pair of
    factors that is tried. None where too few are left without any of them. Devices (families) weigh the same."""
    labels = np.array([getattr(row.point, axis) for row in rows])
    errors = np.array([getattr(row, axis) for row in rows])
    weights, judged = weighed(labels), 0.0
    inside = np.zeros(len(TAILS) + len(BEYOND))
    for name in dict.fromkeys(labels.tolist()):
        mine = labels == name
        if (~mine).sum() < LARGE:
            continue
        judged += float(weights[mine].sum())
        low, high = ends(errors[~mine], weights[~mine])
        inside += weights[mine] @ ((errors[mine, None] >= low) & (errors[mine, None] <= high))
    share: Floats = inside / (judged or 1.0)
    return share if judged else None


def weighed(labels: NDArray[np.str_]) -> Floats:
    """The weight of each row: those of a label weigh together as those of any other that has rows enough."""
    _, place, count = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / np.maximum(count[place], LARGE)


def narrowest(rows: Sequence[Residual], axes: Sequence[Axis]) -> tuple[Factors, dict[Axis, float]]:
    """The factors nearest to each other that hold what was left out on every axis as they are meant to, and what they
    hold; those that hold most where none do. Errors are those that reach further of the axes."""
    each = [ends(np.array([getattr(row, axis) for row in rows]), _weights(rows)) for axis in axes]
    low, high = np.min([one for one, _ in each], axis=0), np.max([other for _, other in each], axis=0)
    held = {axis: shares for axis in axes if (shares := coverage(rows, axis)) is not None}
    if not held:
        few = len(TAILS)  # all there are, and a little more
        return (float(np.exp(low[few])), float(np.exp(high[few]))), {}
    own = np.array([row.own for row in rows])[:, None]
    seen = ((own >= low) & (own <= high)).mean(axis=0)  # where one device has most rows, leaving it out judges few
    least = np.min([seen, *held.values()], axis=0)
    first = int((least >= min(TARGET, float(least.max()))).argmax())
    band = (float(np.exp(low[first])), float(np.exp(high[first])))
    return band, {axis: float(shares[first]) for axis, shares in held.items()}


def _weights(rows: Sequence[Residual]) -> Floats:
    return weighed(np.array([row.point.device for row in rows]))


def of_class(name: str, quantity: str, rows: Sequence[Residual]) -> Known:
    """The factors of a class of work."""
    band, held = narrowest(rows, AXES)
    return _known(name, quantity, rows, band, held)


def _known(
    name: str, quantity: str, rows: Sequence[Residual], band: Factors, held: dict[Axis, float] | None = None
) -> Known:
    measured, predicted = (np.array([getattr(row.point, key) for row in rows]) for key in ("measured", "predicted"))
    return Known(
        name=name,
        quantity=quantity,
        rows=len(rows),
        devices=len({row.point.device for row in rows}),
        median_error=float(np.median(np.abs(predicted / measured - 1.0))),
        rank=spearman(measured, predicted),
        band=band,
        device_out=(held or {}).get("device"),
        family_out=(held or {}).get("family"),
    )


def table(residual_rows: Sequence[Residual]) -> TrustTable:
    """Classes of work, devices that were measured, and what the bands of work that never was are."""
    by_class = _grouped(residual_rows, lambda row: (row.point.quantity, row.point.name))
    held = [of_class(name, quantity, rows) for (quantity, name), rows in by_class.items()]
    energy = {each.name: each for each in held if each.quantity == "energy"}
    metered = _grouped(
        [row for row in residual_rows if row.point.quantity == "energy"], lambda row: row.point.work_class
    )
    order = [each.name for each in classes()]
    held.sort(key=lambda each: (each.quantity != "latency", order.index(each.name) if each.name in order else 0))
    known = []
    for each in held:
        if each.quantity == "latency" and (mine := metered.get(each.name)):
            of = of_class(each.name, "energy", mine) if len(mine) >= LARGE else energy[mine[0].point.name]
            each = msgspec.structs.replace(each, energy_band=of.band)
        known.append(each)
    engineering = {each.name for each in classes() if each.is_engineering}
    unfitted = [row for row in residual_rows if row.point.name in engineering]
    # Either way, since nothing says which. Work that nothing was fitted for may be like any class of work that was
    # measured: it is known no better than so many of these are.
    reaches = [float(np.abs(np.log(each.band)).max()) for each in held if each.quantity == "latency"]
    far = max(float(np.quantile(each, TARGET)) for each in ([abs(row.own) for row in unfitted], reaches))
    known.append(_known(ENGINEERING, "latency", unfitted, (float(np.exp(-far)), float(np.exp(far)))))
    latency = [row for row in residual_rows if row.point.quantity == "latency" and row.point.name]
    cells = _grouped(latency, lambda row: (row.point.device, row.point.name, row.point.runtime, row.point.mode))
    return TrustTable(classes=tuple(known), measured=tuple(_measured(key, mine) for key, mine in sorted(cells.items())))


def _measured(key: tuple[str, str, str, str], rows: Sequence[Residual]) -> Measured:
    """A device with a runtime: rows and error as shipped, and its own factors where these can be held to account."""
    error = float(np.median([abs(row.point.predicted / row.point.measured - 1.0) for row in rows]))
    enough = len(rows) >= LARGE and len({row.point.family for row in rows}) >= FAMILIES
    return Measured(*key, len(rows), error, narrowest(rows, ("family",))[0] if enough else None)


def _grouped(rows: Iterable[Residual], key: Callable[[Residual], Any]) -> dict[Any, list[Residual]]:
    groups: dict[Any, list[Residual]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def as_markdown(known: Iterable[Known]) -> str:
    """The classes as the README has them."""
    head = ("class of work", "rows", "devices", "median error", "rank", "held, devices / families left out", "band")
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for each in known:
        if each.name != ENGINEERING:
            rank = "" if each.rank is None else f"{each.rank:.2f}"
            held = f"{_percent(each.device_out)} / {_percent(each.family_out)}"
            band = f"{each.band[0]:.2f} - {each.band[1]:.2f}"
            cells = (each.name, f"{each.rows:,}", each.devices, _percent(each.median_error), rank, held, band)
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction * 100:.0f} %"


def written(said: TrustTable) -> str:
    """As JSON of one row a line, numbers of four digits."""
    parts = []
    for name in ("classes", "measured"):
        rows = (msgspec.json.encode(_short(msgspec.to_builtins(row))).decode() for row in getattr(said, name))
        parts.append(f'"{name}": [\n' + ",\n".join(rows) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
