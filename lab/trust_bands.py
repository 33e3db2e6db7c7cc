"""Widths of bands, from the errors of the rows that are given to fits, and how many held rows are inside.

A class of work has the narrowest band that holds TARGET of the rows of a device if it is taken from other devices, and
a little more where rows are few (conformal quantiles of the logarithm of measured over predicted). A device with enough
given rows has a band of its own. No band follows from a held row.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import NormalDist

import msgspec
import numpy as np

from analysis.estimate.trust import ENGINEERING, ClassEvidence, DeviceEvidence, Factors, TrustTable, work_classes
from analysis.measured.predictions import LARGE, PredictionPoint
from analysis.model.ir.workload import Floats
from hardware import known_architectures
from hardware.base.records import group_by
from hardware.device_catalog import load_device
from hwexplorer_annexes.calibration.rate_fit import LEAST, TARGET

# Candidate bands, from narrow to wide: the share of the weight of errors beyond each end, then the logarithm by which
# both ends exceed all errors. Both ends change together: if chosen separately, the best by chance would win.
TAILS = tuple(share / 100 for share in range(20, -1, -1))
BEYOND = tuple(share / 20 for share in range(1, 21))
JUDGED = 3  # least number of devices for a meaningful share
FAMILIES = 3  # least number of families of models for a device to have a separate band
Cell = tuple[str, str, str, str]  # device, class of work, runtime, mode


def log_errors(points: Sequence[PredictionPoint]) -> Floats:
    """Return the logarithms of measured over the nearest prediction."""
    return np.log([point.measured / point.nearest for point in points])


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


def coverage_of_others(points: Sequence[PredictionPoint]) -> Floats | None:
    """Return the share of rows inside each candidate band that is taken from other devices, which have equal weight.
    Return None if fewer than JUDGED can be left out with LARGE rows remaining."""
    labels, errors = np.array([point.device for point in points]), log_errors(points)
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


def spread_between_devices(classes: Iterable[Sequence[PredictionPoint]]) -> float:
    """Return the standard deviation of the mean errors (logarithms) of devices, the median over classes of work that
    were measured on JUDGED devices or more; 0 without such classes."""
    spreads = []
    for points in classes:
        means = [float(log_errors(of_device).mean()) for of_device in group_by(points, lambda p: p.device).values()]
        if len(means) >= JUDGED:
            spreads.append(float(np.std(means, ddof=1)))
    return float(np.median(spreads)) if spreads else 0.0


def narrowest_band(points: Sequence[PredictionPoint], spread: float = 0.0) -> tuple[Factors, float | None]:
    """Return the narrowest band that holds the share TARGET of rows, those of each device by others' bands, and this
    share. Rows of too few devices say nothing about others, which differ by the standard deviation `spread` as those of
    other classes do: their share is None."""
    errors, weights = log_errors(points)[:, None], row_weights(point.device for point in points)
    low, high = candidate_ends(errors[:, 0], weights)
    others = coverage_of_others(points)
    if others is None:  # a new device differs from these few
        wider = float(np.sqrt(1.0 + 1.0 / len({point.device for point in points})))
        reach = NormalDist().inv_cdf((1.0 + TARGET) / 2.0) * spread
        low[: len(TAILS)] = -np.hypot(low[: len(TAILS)], reach) * wider
        high[: len(TAILS)] = np.hypot(high[: len(TAILS)], reach) * wider
    is_inside = (errors >= low) & (errors <= high)
    # One device may have most rows, so the coverage is also computed with equal weight of devices.
    shares = [is_inside.mean(axis=0), weights @ is_inside / weights.sum(), *([] if others is None else [others])]
    place = _first_that_holds(np.min(shares, axis=0), len(points))
    return (float(np.exp(low[place])), float(np.exp(high[place]))), None if others is None else float(others[place])


def _first_that_holds(share: Floats, rows: int) -> int:
    """Return the first of candidate bands that will hold one more row the share TARGET of the time."""
    return int((share >= min(TARGET * (1.0 + 1.0 / rows), float(share.max()))).argmax())


def class_evidence(
    name: str, quantity: str, held: Sequence[PredictionPoint], band: Factors, in_band: float | None = None
) -> ClassEvidence:
    """Return the errors of held rows of a class of work beside its band."""
    error = np.array([point.predicted / point.measured - 1.0 for point in held])
    return ClassEvidence(
        name=name,
        quantity=quantity,
        rows=len(held),
        devices=len({point.device for point in held}),
        median_error=float(np.median(np.abs(error))),
        error_90=float(np.quantile(np.abs(error), 0.9)),
        bias=float(np.median(error)),
        band=band,
        in_band=in_band,
    )


def judge_class(
    held: Sequence[PredictionPoint],
    given: Sequence[PredictionPoint],
    spread: float,
    own_bands: Mapping[Cell, Factors],
) -> ClassEvidence:
    """Return the errors of held rows of a class of work, its band by the `given` ones, and the share of held rows that
    are inside the band of their device, if it has one, else that of the class."""
    name, quantity = held[0].name, held[0].quantity
    band, share = narrowest_band(given or held, spread)
    band = widen_by_hosts(band, name) if quantity == "latency" else band
    low, high = np.log([own_bands.get(_cell(point), band) for point in held]).T
    errors = log_errors(held)
    is_inside = (errors >= low) & (errors <= high)
    return class_evidence(name, quantity, held, band, None if share is None else float(is_inside.mean()))


def served_evidence(held: Sequence[PredictionPoint], given: Sequence[PredictionPoint]) -> list[ClassEvidence]:
    """Return the evidence of each figure of services: errors of held rows, and bands of those given to fits."""
    groups, others = (group_by(points, lambda point: point.quantity) for points in (held, given))
    spread = spread_between_devices(others.values())
    return [judge_class(those, others.get(quantity, ()), spread, {}) for quantity, those in sorted(groups.items())]


def trust_table(
    held: Sequence[PredictionPoint], given: Sequence[PredictionPoint], served: Sequence[PredictionPoint] = ()
) -> TrustTable:
    """Return the evidence of each class of work, of each measured device, and of work without measurements: errors of
    held rows, and bands of the others, which were `given` to fits. Times per token of services (`served`) only say what
    was measured."""
    of_given = group_by(given, lambda point: (point.quantity, point.name))
    by_class = group_by(held, lambda point: (point.quantity, point.name))
    spreads = {
        quantity: spread_between_devices(points for (kind, _), points in of_given.items() if kind == quantity)
        for quantity, _ in by_class
    }
    latency, known = ([p for p in points if p.quantity == "latency" and p.name] for points in (held, given))
    cells, of_cells = (group_by(points, _cell) for points in ((*latency, *served), known))
    bands = {key: band for key, points in of_cells.items() if (band := own_band(points)) is not None}
    classes = [
        judge_class(points, of_given.get(key, ()), spreads[key[0]], bands if key[0] == "latency" else {})
        for key, points in by_class.items()
    ]
    energy_bands = {row.name: row.band for row in classes if row.quantity == "energy"}
    metered = group_by((point for point in given if point.quantity == "energy"), lambda point: point.work_class)
    for name, points in metered.items():  # the band of its own rows, or that of all if they or their devices are few
        is_enough = len(points) >= LARGE and len({point.device for point in points}) >= JUDGED
        energy_bands[name] = narrowest_band(points)[0] if is_enough else energy_bands[points[0].name]
    order = [kind.name for kind in work_classes()]
    classes.sort(key=lambda each: (each.quantity != "latency", order.index(each.name) if each.name in order else 0))
    classes = [
        msgspec.structs.replace(each, energy_band=energy_bands.get(each.name)) if each.quantity == "latency" else each
        for each in classes
    ]
    engineering = {each.name for each in work_classes() if each.is_engineering}
    # Work without a fit may resemble any measured class, so its band reaches as far, to both sides, as the bands of
    # most classes.
    reaches = [float(np.abs(np.log(each.band)).max()) for each in classes if each.quantity == "latency"]
    unfitted = np.abs(log_errors([point for point in known if point.name in engineering]))
    reach = max(float(np.quantile(each, TARGET)) for each in (unfitted, reaches))
    judged = [point for point in latency if point.name in engineering]
    classes.append(class_evidence(ENGINEERING, "latency", judged, (float(np.exp(-reach)), float(np.exp(reach)))))
    counts = Counter(map(_cell, (*latency, *served, *known)))
    measured = (measure_device(key, cells.get(key, []), counts[key], bands.get(key)) for key in sorted(counts))
    return TrustTable(classes=tuple(classes), measured=tuple(measured))


def _cell(point: PredictionPoint) -> Cell:
    return point.device, point.name, point.runtime, point.mode


def own_band(given: Sequence[PredictionPoint]) -> Factors | None:
    """Return the band that will hold the next row of a device on a class of work under a runtime, by its own rows, None
    if they are too few."""
    if len(given) < LARGE or len({point.family for point in given}) < FAMILIES:
        return None
    errors = log_errors(given)
    low, high = candidate_ends(errors, np.ones(len(errors)))
    share = ((errors[:, None] >= low) & (errors[:, None] <= high)).mean(axis=0)
    place = _first_that_holds(share, len(errors))
    return widen_by_hosts((float(np.exp(low[place])), float(np.exp(high[place]))), given[0].name)


def measure_device(key: Cell, held: Sequence[PredictionPoint], rows: int, band: Factors | None) -> DeviceEvidence:
    """Return the evidence of a device on a class of work under a runtime that has so many rows: the error of its held
    ones, and a separate band if it has one."""
    error = float(np.median([abs(p.predicted / p.measured - 1.0) for p in held])) if held else None
    return DeviceEvidence(*key, rows, error, band, load_device(key[0]).vendor)


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
