"""Widths of bands, from errors on devices and families of models that were left out.

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

from analysis.annexes.machine.prediction_errors import spearman
from analysis.annexes.machine.row_validation import LARGE, PredictionPoint
from analysis.estimate.trust import ENGINEERING, ClassEvidence, DeviceEvidence, Factors, TrustTable, work_classes
from analysis.model.ir.workload import Floats
from hardware.architectures import known_architectures

TARGET = 0.82  # share of left-out rows that a band is to hold; between 80 and 90 % is meant
LEAST = float(np.log(1.05))  # no band is narrower than measurements repeat
# Bands that are tried, for both ends at once (of each apart, the best by chance would be taken): those that this part
# of the weight of the errors lies beyond, then those that reach so far (of a logarithm) beyond all errors.
TAILS = tuple(share / 100 for share in range(20, -1, -1))
BEYOND = tuple(share / 20 for share in range(1, 21))
JUDGED = 3  # devices or families left out, below which their share says nothing
FAMILIES = 3  # of models, from which a device has factors of its own

Axis = Literal["device", "family"]
AXES: tuple[Axis, ...] = ("device", "family")


class Residual(msgspec.Struct, frozen=True):
    """The logarithm of measured over predicted of one row: as shipped, and by fits that left out its device and its
    family; without `is_left_out`, what is shipped was set with this row in sight, and stands for these too."""

    point: PredictionPoint
    shipped: float
    device: float
    family: float
    is_left_out: bool = True


def make_residual(point: PredictionPoint, left_out: tuple[float, float] | None = None) -> Residual:
    """Return the errors of a row. `left_out` are the predictions of fits without its device and without its family,
    None where it was not fitted to."""
    shipped = float(np.log(point.measured / point.predicted))
    if left_out is None:
        return Residual(point, shipped, shipped, shipped, is_left_out=False)
    device, family = (float(np.log(point.measured / predicted)) for predicted in left_out)
    return Residual(point, shipped, device, family)


def candidate_ends(errors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return logarithms of the low and high factors that are tried, from the narrowest band to the widest."""
    order = np.argsort(errors)
    ordered, upto = errors[order], np.cumsum(weights[order]) / weights.sum()
    last = len(errors) - 1
    low = ordered[np.searchsorted(upto, TAILS, "right").clip(0, last)]
    high = ordered[np.searchsorted(upto, 1.0 - np.array(TAILS), "left").clip(0, last)]
    low = np.concatenate([np.minimum(low, -LEAST), min(low[-1], -LEAST) - np.array(BEYOND)])
    high = np.concatenate([np.maximum(high, LEAST), max(high[-1], LEAST) + np.array(BEYOND)])
    return low, high


def left_out_coverage(rows: Sequence[Residual], axis: Axis) -> Floats | None:
    """Return the share of rows inside each candidate band taken without their device or family; None where fewer than
    three can be left out with enough rows kept: one more or less then decides. Devices (families) weigh the same."""
    labels = np.array([getattr(row.point, axis) for row in rows])
    errors = np.array([getattr(row, axis) for row in rows])
    weights, judged, names = row_weights(labels), 0.0, 0
    inside = np.zeros(len(TAILS) + len(BEYOND))
    for name in dict.fromkeys(labels.tolist()):
        chosen = labels == name
        if (~chosen).sum() < LARGE:
            continue
        judged += float(weights[chosen].sum())
        names += 1
        low, high = candidate_ends(errors[~chosen], weights[~chosen])
        inside += weights[chosen] @ ((errors[chosen, None] >= low) & (errors[chosen, None] <= high))
    share: Floats = inside / (judged or 1.0)
    return share if names >= JUDGED else None


def row_weights(labels: NDArray[np.str_]) -> Floats:
    """Return the weight of each row: the rows of a label weigh together as those of any other with enough rows."""
    _, place, count = np.unique(labels, return_inverse=True, return_counts=True)
    return 1.0 / np.maximum(count[place], LARGE)


def narrowest_band(rows: Sequence[Residual], axes: Sequence[Axis]) -> tuple[Factors, dict[Axis, float]]:
    """Return the narrowest band that holds enough of what was left out on every axis, and what it holds; the one that
    holds most where none does. Errors are those that reach further of the axes."""
    weights = row_weights(np.array([row.point.device for row in rows]))
    tried = [candidate_ends(np.array([getattr(row, axis) for row in rows]), weights) for axis in axes]
    low, high = np.min([ends[0] for ends in tried], axis=0), np.max([ends[1] for ends in tried], axis=0)
    coverage = {axis: shares for axis in axes if (shares := left_out_coverage(rows, axis)) is not None}
    if "device" in axes and "device" not in coverage:  # a further device is not one of these few
        wider = float(np.sqrt(1.0 + 1.0 / len({row.point.device for row in rows})))
        low[: len(TAILS)] *= wider
        high[: len(TAILS)] *= wider
    shipped = np.array([row.shipped for row in rows])[:, None]
    # One device may have most rows: few are judged without it.
    seen = ((shipped >= low) & (shipped <= high)).mean(axis=0)
    alike = weights @ ((shipped >= low) & (shipped <= high)) / weights.sum()
    least = np.min([seen, alike, *coverage.values()], axis=0)
    first = int((least >= min(TARGET, float(least.max()))).argmax())
    band = (float(np.exp(low[first])), float(np.exp(high[first])))
    return band, {axis: float(shares[first]) for axis, shares in coverage.items()}


def class_factors(name: str, quantity: str, rows: Sequence[Residual], band: Factors | None = None) -> ClassEvidence:
    """Return the errors of a class of work and the narrowest band that holds them, unless it is given."""
    coverage: dict[Axis, float] = {}
    if band is None:
        band, coverage = narrowest_band(rows, AXES)
        if quantity == "latency" and name in _host_classes():
            band = widen_by_hosts(band)
    measured, predicted = (np.array([getattr(row.point, key) for row in rows]) for key in ("measured", "predicted"))
    return ClassEvidence(
        name=name,
        quantity=quantity,
        rows=len(rows),
        devices=len({row.point.device for row in rows}),
        median_error=float(np.median(np.abs(predicted / measured - 1.0))),
        rank=spearman(measured, predicted),
        band=band,
        device_out=coverage.get("device"),
        family_out=coverage.get("family"),
    )


def trust_table(residuals: Sequence[Residual]) -> TrustTable:
    """Return the classes of work, the devices that were measured, and the band of work that never was."""
    by_class = _group_rows(residuals, lambda row: (row.point.quantity, row.point.name))
    factors = [class_factors(name, quantity, rows) for (quantity, name), rows in by_class.items()]
    energy = {each.name: each for each in factors if each.quantity == "energy"}
    metered = _group_rows(
        [row for row in residuals if row.point.quantity == "energy"], lambda row: row.point.work_class
    )
    order = [each.name for each in work_classes()]
    factors.sort(key=lambda each: (each.quantity != "latency", order.index(each.name) if each.name in order else 0))
    known = []
    for each in factors:
        if each.quantity == "latency" and (rows := metered.get(each.name)):
            is_enough = len(rows) >= LARGE
            of_energy = class_factors(each.name, "energy", rows) if is_enough else energy[rows[0].point.name]
            each = msgspec.structs.replace(each, energy_band=of_energy.band)
        known.append(each)
    engineering = {each.name for each in work_classes() if each.is_engineering}
    unfitted = [row for row in residuals if row.point.name in engineering]
    # Work that nothing was fitted for may be like any class that was measured: it is known no better than most of
    # these are, to either side, since nothing says which.
    reaches = [float(np.abs(np.log(each.band)).max()) for each in factors if each.quantity == "latency"]
    reach = max(float(np.quantile(each, TARGET)) for each in ([abs(row.shipped) for row in unfitted], reaches))
    known.append(class_factors(ENGINEERING, "latency", unfitted, (float(np.exp(-reach)), float(np.exp(reach)))))
    latency = [row for row in residuals if row.point.quantity == "latency" and row.point.name]
    cells = _group_rows(latency, lambda row: (row.point.device, row.point.name, row.point.runtime, row.point.mode))
    return TrustTable(
        classes=tuple(known), measured=tuple(measure_device(key, rows) for key, rows in sorted(cells.items()))
    )


def measure_device(key: tuple[str, str, str, str], rows: Sequence[Residual]) -> DeviceEvidence:
    """Return the errors of a device on a class of work under a runtime, and a band of its own where other rows than
    those that it holds set the constants."""
    error = float(np.median([abs(row.point.predicted / row.point.measured - 1.0) for row in rows]))
    is_enough = len(rows) >= LARGE and len({row.point.family for row in rows}) >= FAMILIES
    # Rows in sight of who set the constants say nothing of other models on the same device.
    if not is_enough or not all(row.is_left_out for row in rows):
        return DeviceEvidence(*key, len(rows), error, None)
    band = narrowest_band(rows, ("family",))[0]
    return DeviceEvidence(*key, len(rows), error, widen_by_hosts(band) if key[1] in _host_classes() else band)


def _host_classes() -> set[str]:
    return {each.name for each in work_classes() if each.waits_for_host}


def widen_by_hosts(band: Factors) -> Factors:
    """Return a band with the spread between hosts, as the fact of dispatch states it, beside that of the errors."""
    fact = known_architectures.BASELINE.data.facts["dispatch_s"]
    assert fact.value
    assert fact.low
    assert fact.high
    low, high = (
        np.hypot(*np.log(pair)) for pair in ((band[0], fact.low / fact.value), (band[1], fact.high / fact.value))
    )
    return float(np.exp(-low)), float(np.exp(high))


def _group_rows(rows: Iterable[Residual], key: Callable[[Residual], Any]) -> dict[Any, list[Residual]]:
    groups: dict[Any, list[Residual]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def encode_trust(trust: TrustTable) -> str:
    """Return the table as JSON of one row a line, numbers of four digits."""
    parts = [f'"{name}": [\n' + encode_rows(getattr(trust, name)) + "\n]" for name in ("classes", "measured")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def encode_rows(rows: Iterable[msgspec.Struct]) -> str:
    """Return rows of evidence as JSON, one a line, numbers of four digits."""
    return ",\n".join(msgspec.json.encode(_round(msgspec.to_builtins(row))).decode() for row in rows)


def _round(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_round(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
