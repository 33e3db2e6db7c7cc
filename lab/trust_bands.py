"""Widths of bands, from the errors of the rows that are given to fits, and how many held rows are inside.

One rule makes every band of errors (logarithms of measured over predicted): (1 - TARGET) / 2 of their weight is beyond
each end, less where weight is small, as one more device or row may be anywhere. In a class of work devices weigh the
same, and all classes together as much as one of them; beside the rows of a device, its class weighs as much as LARGE
rows. So a band of few rows is nearly that of their class. No band follows from a held row.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from analysis.estimate.trust import ENGINEERING, ClassEvidence, DeviceEvidence, Factors, TrustTable, work_classes
from analysis.measured.predictions import LARGE, PredictionPoint
from analysis.model.ir.workload import Floats
from hardware import known_architectures
from hardware.base.records import group_by
from hardware.device_catalog import load_device
from hwexplorer_annexes.calibration.rate_fit import LEAST, TARGET

JUDGED = 3  # least number of devices for a meaningful share
Cell = tuple[str, str, str, str]  # device, class of work, runtime, mode


class Errors(NamedTuple):
    """Logarithms of measured over predicted, and their weights."""

    logs: Floats
    weights: Floats

    def beside(self, others: "Errors", counts_as: float) -> "Errors":
        """Return these errors and `others`, which together weigh `counts_as`."""
        weights = others.weights * (counts_as / others.weights.sum())
        return Errors(np.concatenate([self.logs, others.logs]), np.concatenate([self.weights, weights]))

    @property
    def band(self) -> Factors:
        """Factors that leave out the same weight at both ends, and hold the prediction."""
        order, total = np.argsort(self.logs), self.weights.sum()
        beyond = (1.0 - TARGET) / 2.0 * (1.0 - 1.0 / total)
        upto = np.cumsum(self.weights[order]) / total
        low, high = self.logs[order][np.searchsorted(upto, (beyond, 1.0 - beyond)).clip(0, len(order) - 1)]
        return float(np.exp(min(low, -LEAST))), float(np.exp(max(high, LEAST)))


def log_errors(points: Sequence[PredictionPoint]) -> Floats:
    """Return the logarithms of measured over the nearest prediction."""
    return np.log([point.measured / point.nearest for point in points])


def errors_of_devices(points: Sequence[PredictionPoint]) -> Errors:
    """Return the errors of rows; devices weigh 1, or less with fewer than LARGE rows."""
    return Errors(log_errors(points), row_weights(point.device for point in points))


def errors_of_classes(classes: Iterable[Sequence[PredictionPoint]]) -> Errors:
    """Return the errors of rows by class of work; classes weigh 1, or less with fewer than LARGE rows."""
    logs, weights = zip(*(errors_of_devices(points) for points in classes), strict=True)
    return Errors(np.concatenate(logs), np.concatenate([each / max(each.sum(), 1.0) for each in weights]))


def row_weights(labels: Iterable[Hashable]) -> Floats:
    """Return the weight of each row: one over the number of rows with its label, at most 1 / LARGE."""
    counts = Counter(labels := list(labels))
    return np.array([1.0 / max(counts[label], LARGE) for label in labels])


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
    band: Factors,
    own_bands: Mapping[Cell, Factors],
) -> ClassEvidence:
    """Return the errors of held rows of a class of work, and the share of them that are inside the band of their
    device, if it has one, else that of the class; no share if few rows or devices were given."""
    name, quantity = held[0].name, held[0].quantity
    low, high = np.log([own_bands.get(_cell(point), band) for point in held]).T
    errors, devices = log_errors(held), {point.device for point in given}
    share = float(((errors >= low) & (errors <= high)).mean())
    is_judged = len(given) >= LARGE and len(devices) >= JUDGED
    return class_evidence(name, quantity, held, band, share if is_judged else None)


def served_evidence(held: Sequence[PredictionPoint], given: Sequence[PredictionPoint]) -> list[ClassEvidence]:
    """Return the evidence of each figure of services: errors of held rows, and bands of those given to fits."""
    groups, others = (group_by(points, lambda point: point.quantity) for points in (held, given))
    every = errors_of_classes(others.values())
    bands = {quantity: errors_of_devices(those).beside(every, 1.0).band for quantity, those in others.items()}
    return [judge_class(those, others[quantity], bands[quantity], {}) for quantity, those in sorted(groups.items())]


def trust_table(
    held: Sequence[PredictionPoint], given: Sequence[PredictionPoint], served: Sequence[PredictionPoint] = ()
) -> TrustTable:
    """Return the evidence of each class of work, of each measured device, and of work without measurements: errors of
    held rows, and bands of the others, which were `given` to fits. Times per token of services (`served`) only say what
    was measured."""
    of_given = group_by(given, lambda point: (point.quantity, point.name))
    by_class = group_by(held, lambda point: (point.quantity, point.name))
    latency, known = ([p for p in points if p.quantity == "latency" and p.name] for points in (held, given))
    cells, of_cells = (group_by(points, _cell) for points in ((*latency, *served), known))
    every = {
        quantity: errors_of_classes(points for (kind, _), points in of_given.items() if kind == quantity)
        for quantity, _ in by_class
    }
    errors = {key: errors_of_devices(points).beside(every[key[0]], 1.0) for key, points in of_given.items()}
    own = {key: Errors(log_errors(points), np.ones(len(points))) for key, points in of_cells.items()}
    bands = {key: rows.beside(errors["latency", key[1]], LARGE).band for key, rows in own.items()}
    bands = {key: widen_by_hosts(band, key[1]) for key, band in bands.items()}
    classes = []
    for key, points in by_class.items():
        band = widen_by_hosts(errors.get(key, every[key[0]]).band, key[1])
        classes.append(judge_class(points, of_given.get(key, ()), band, bands if key[0] == "latency" else {}))
    energy_bands = {row.name: row.band for row in classes if row.quantity == "energy"}
    metered = group_by((point for point in given if point.quantity == "energy"), lambda point: point.work_class)
    for name, points in metered.items():
        energy_bands[name] = errors_of_devices(points).beside(errors["energy", points[0].name], 1.0).band
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
