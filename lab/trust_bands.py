"""Widths of bands, from errors on left-out devices and families of models.

A class of work has a band whose factors hold 80 to 90 % of the rows of a device if they are taken from other devices
(conformal quantiles of the logarithm of measured over predicted). A device that was measured often enough with a
runtime has a separate band, tested on left-out families of models. Rows that the efficiencies were fitted to are
predicted by a fit without their device or without their family.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np

from analysis.estimate.trust import ENGINEERING, ClassEvidence, DeviceEvidence, Factors, TrustTable, work_classes
from analysis.measured.predictions import LARGE, PredictionPoint
from analysis.model.ir.workload import Floats
from hardware import known_architectures
from hardware.base.records import group_by
from hwexplorer_annexes.calibration.rate_fit import LEAST, TARGET
from lab.errors import spearman

# Candidate bands, from narrow to wide: the share of the weight of errors beyond each end, then the logarithm by which
# both ends exceed all errors. Both ends change together: if chosen separately, the best by chance would win.
TAILS = tuple(share / 100 for share in range(20, -1, -1))
BEYOND = tuple(share / 20 for share in range(1, 21))
JUDGED = 3  # least number of left-out devices or families for a meaningful share
FAMILIES = 3  # least number of families of models for a device to have a separate band

Axis = Literal["device", "family"]
AXES: tuple[Axis, ...] = ("device", "family")


class Residual(msgspec.Struct, frozen=True):
    """The logarithm of measured over predicted of one row: as shipped, and by fits without its device and without its
    family. Without `is_left_out` all three are as shipped, with constants that were set with this row in sight."""

    point: PredictionPoint
    shipped: float
    device: float
    family: float
    is_left_out: bool = True


def make_residual(point: PredictionPoint, left_out: tuple[float, float] | None = None) -> Residual:
    """Return the errors of a row. `left_out` are the predictions of fits without its device and without its family,
    None if the row was not in the fit."""
    shipped = float(np.log(point.measured / point.predicted))
    if left_out is None:
        return Residual(point, shipped, shipped, shipped, is_left_out=False)
    device, family = (float(np.log(point.measured / predicted)) for predicted in left_out)
    return Residual(point, shipped, device, family)


def candidate_ends(errors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return logarithms of the low and high factors of candidate bands, from the narrowest to the widest."""
    order = np.argsort(errors)
    ordered, upto = errors[order], np.cumsum(weights[order]) / weights.sum()
    end = len(errors) - 1
    low = ordered[np.searchsorted(upto, TAILS, "right").clip(0, end)]
    high = ordered[np.searchsorted(upto, 1.0 - np.array(TAILS), "left").clip(0, end)]
    low = np.concatenate([np.minimum(low, -LEAST), min(low[-1], -LEAST) - np.array(BEYOND)])
    high = np.concatenate([np.maximum(high, LEAST), max(high[-1], LEAST) + np.array(BEYOND)])
    return low, high


def left_out_coverage(rows: Sequence[Residual], axis: Axis) -> Floats | None:
    """Return the share of rows inside each candidate band that is taken from other devices (families), which have equal
    weight. Return None if fewer than JUDGED can be left out with LARGE rows remaining."""
    labels = np.array([getattr(row.point, axis) for row in rows])
    errors = np.array([getattr(row, axis) for row in rows])
    weights, judged, names = row_weights(labels.tolist()), 0.0, 0
    inside = np.zeros(len(TAILS) + len(BEYOND))
    for name in dict.fromkeys(labels.tolist()):
        is_member = labels == name
        if (~is_member).sum() < LARGE:
            continue
        judged += float(weights[is_member].sum())
        names += 1
        low, high = candidate_ends(errors[~is_member], weights[~is_member])
        inside += weights[is_member] @ ((errors[is_member, None] >= low) & (errors[is_member, None] <= high))
    share: Floats = inside / (judged or 1.0)
    return share if names >= JUDGED else None


def row_weights(labels: Iterable[Hashable]) -> Floats:
    """Return the weight of each row: one over the number of rows with its label, at most 1 / LARGE."""
    counts = Counter(labels := list(labels))
    return np.array([1.0 / max(counts[label], LARGE) for label in labels])


def spread_between_devices(classes: Iterable[Sequence[Residual]]) -> float:
    """Return the standard deviation of the mean errors (logarithms) of devices, the median over classes of work that
    were measured on JUDGED devices or more; 0 without such classes."""
    spreads = []
    for rows in classes:
        devices = group_by(rows, lambda row: row.point.device).values()
        means = [float(np.mean([row.device for row in group])) for group in devices]
        if len(means) >= JUDGED:
            spreads.append(float(np.std(means, ddof=1)))
    return float(np.median(spreads)) if spreads else 0.0


def narrowest_band(
    rows: Sequence[Residual], axes: Sequence[Axis], spread: float = 0.0
) -> tuple[Factors, dict[Axis, float]]:
    """Return the narrowest band that holds the share TARGET of left-out rows on every axis, else the band that holds
    most, and its share by axis. Each end of a candidate band is the furthest over the axes. Rows of too few devices say
    nothing about others, which differ by the standard deviation `spread` as those of other classes do."""
    weights = row_weights(row.point.device for row in rows)
    tried = [candidate_ends(np.array([getattr(row, axis) for row in rows]), weights) for axis in axes]
    low, high = np.min([ends[0] for ends in tried], axis=0), np.max([ends[1] for ends in tried], axis=0)
    coverage = {axis: shares for axis in axes if (shares := left_out_coverage(rows, axis)) is not None}
    if "device" in axes and "device" not in coverage:  # a new device differs from these few
        wider = float(np.sqrt(1.0 + 1.0 / len({row.point.device for row in rows})))
        reach = NormalDist().inv_cdf((1.0 + TARGET) / 2.0) * spread
        low[: len(TAILS)] = -np.hypot(low[: len(TAILS)], reach) * wider
        high[: len(TAILS)] = np.hypot(high[: len(TAILS)], reach) * wider
    shipped = np.array([row.shipped for row in rows])[:, None]
    # One device may have most rows, so the coverage is also computed with equal weight of devices.
    share = ((shipped >= low) & (shipped <= high)).mean(axis=0)
    alike = weights @ ((shipped >= low) & (shipped <= high)) / weights.sum()
    least = np.min([share, alike, *coverage.values()], axis=0)
    place = int((least >= min(TARGET, float(least.max()))).argmax())
    band = (float(np.exp(low[place])), float(np.exp(high[place])))
    return band, {axis: float(shares[place]) for axis, shares in coverage.items()}


def class_factors(
    name: str, quantity: str, rows: Sequence[Residual], band: Factors | None = None, spread: float = 0.0
) -> ClassEvidence:
    """Return the errors of a class of work and its band: `band` if given, else the narrowest that holds the errors."""
    coverage: dict[Axis, float] = {}
    if band is None:
        band, coverage = narrowest_band(rows, AXES, spread)
        band = widen_by_hosts(band, name) if quantity == "latency" else band
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
    """Return the evidence of each class of work, of each measured device, and of work without measurements."""
    by_class = group_by(residuals, lambda row: (row.point.quantity, row.point.name))
    spreads = {
        quantity: spread_between_devices(rows for (kind, _), rows in by_class.items() if kind == quantity)
        for quantity, _ in by_class
    }
    factors = [class_factors(name, kind, rows, spread=spreads[kind]) for (kind, name), rows in by_class.items()]
    energy_bands = {row.name: row.band for row in factors if row.quantity == "energy"}
    metered = group_by([row for row in residuals if row.point.quantity == "energy"], lambda row: row.point.work_class)
    for name, rows in metered.items():  # the band of its own rows, or that of all if they are few
        energy_bands[name] = (
            class_factors(name, "energy", rows, spread=spreads["energy"]).band
            if len(rows) >= LARGE
            else energy_bands[rows[0].point.name]
        )
    order = [kind.name for kind in work_classes()]
    factors.sort(key=lambda each: (each.quantity != "latency", order.index(each.name) if each.name in order else 0))
    classes = [
        msgspec.structs.replace(each, energy_band=energy_bands.get(each.name)) if each.quantity == "latency" else each
        for each in factors
    ]
    engineering = {each.name for each in work_classes() if each.is_engineering}
    unfitted = [row for row in residuals if row.point.name in engineering]
    # Work without a fit may resemble any measured class, so its band reaches as far, to both sides, as the bands of
    # most classes.
    reaches = [float(np.abs(np.log(each.band)).max()) for each in factors if each.quantity == "latency"]
    reach = max(float(np.quantile(each, TARGET)) for each in ([abs(row.shipped) for row in unfitted], reaches))
    classes.append(class_factors(ENGINEERING, "latency", unfitted, (float(np.exp(-reach)), float(np.exp(reach)))))
    latency = [row for row in residuals if row.point.quantity == "latency" and row.point.name]
    cells = group_by(latency, lambda row: (row.point.device, row.point.name, row.point.runtime, row.point.mode))
    return TrustTable(
        classes=tuple(classes), measured=tuple(measure_device(key, rows) for key, rows in sorted(cells.items()))
    )


def measure_device(key: tuple[str, str, str, str], rows: Sequence[Residual]) -> DeviceEvidence:
    """Return the errors of a device on a class of work under a runtime, with a separate band if there are enough rows
    and all of them are predicted by fits without their family."""
    error = float(np.median([abs(row.point.predicted / row.point.measured - 1.0) for row in rows]))
    is_enough = len(rows) >= LARGE and len({row.point.family for row in rows}) >= FAMILIES
    # Rows that were in sight when constants were set are no evidence for other models on the device.
    if not is_enough or not all(row.is_left_out for row in rows):
        return DeviceEvidence(*key, len(rows), error, None)
    return DeviceEvidence(*key, len(rows), error, widen_by_hosts(narrowest_band(rows, ("family",))[0], key[1]))


def widen_by_hosts(band: Factors, work_class: str) -> Factors:
    """Return the band of a class of work, widened by the spread between hosts that the fact `dispatch_s` states if such
    work waits for its host."""
    if not any(kind.waits_for_host for kind in work_classes() if kind.name == work_class):
        return band
    fact = known_architectures.get(known_architectures.BASELINE).data.facts["dispatch_s"]
    value, low, high = (number or 1.0 for number in (fact.value, fact.low, fact.high))
    below, above = (np.hypot(*np.log(pair)) for pair in ((band[0], low / value), (band[1], high / value)))
    return float(np.exp(-below)), float(np.exp(above))


def encode_trust(trust: TrustTable) -> str:
    """Return the table as JSON with one row per line and numbers of four digits."""
    parts = [f'"{name}": [\n{encode_rows(getattr(trust, name))}\n]' for name in ("classes", "measured")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def encode_rows(rows: Iterable[msgspec.Struct]) -> str:
    """Return rows of evidence as JSON, one per line, with numbers of four digits."""
    return ",\n".join(
        msgspec.json.encode(
            json.loads(msgspec.json.encode(row), parse_float=lambda x: float(f"{float(x):.4g}"))
        ).decode()
        for row in rows
    )
