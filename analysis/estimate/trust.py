"""The evidence for estimates: by device, kind of work and runtime, from measurements that no constant follows from.

`python -m lab.judge --write` writes trust.json. The true latency is expected between `band[0]` and `band[1]` times the
estimate.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from analysis.document import column
from hardware.base import file_access
from hardware.base.file_access import read_list
from hardware.base.records import group_by, memoize
from hardware.device import OwnEvidence
from hardware.device_catalog import load_device
from hardware.engines.runtime import MODES, UNKNOWN
from hardware.precision import FORMATS, parse
from hardware.setup import Setup

FOLDER = Path(__file__).parent
PATH = FOLDER / "trust.json"
MOST = 1 << 20  # bytes of trust.json
LEVELS = ("measured", "siblings", "engineering", "design_target")
ENGINEERING = "engineering"  # the row of trust.json for work without similar measurements
SERVED = "served at load"  # the class of work of services, whose engines were measured too
_LANGUAGE = frozenset(("decode", "prefill", "request"))
_MODES = frozenset(MODES)

Factors = tuple[float, float]


class Trust(msgspec.Struct, frozen=True):
    """The evidence for a figure. `level` is 'measured' (this device and runtime), 'siblings' (its class of work on
    others, and its engine), 'engineering' (data sheets) or 'design_target' (on paper only). `rows` were measured on it
    or its relatives, with a `median_error`, a fraction; `band` are the factors of the latency between which the true
    one is expected."""

    level: str
    rows: int
    median_error: float | None
    band: Factors


class WorkClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of work; the fields are explained in classes.toml."""

    name: str
    kinds: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    least_batch: int = 1
    most_batch: float = float("inf")
    most_bits: float = float("inf")
    parallel: bool | None = None
    is_engineering: bool = False
    waits_for_host: bool = False

    def is_of(self, setup: Setup, kind: str, is_parallel: bool) -> bool:
        """Return True if such work, at some batch, is of this class unless an earlier class fits."""
        device, runtime = setup.device, setup.runtime
        return (
            (not self.kinds or kind in self.kinds)
            and (not self.on or device.software_class in self.on or device.id.startswith(self.on))
            and (not self.modes or runtime.mode in self.modes)
            and (not self.runtimes or runtime.id in self.runtimes)
            and FORMATS[parse(setup.plan.requested).weights].bits <= self.most_bits
            and self.parallel in (None, is_parallel)
        )


@lru_cache(maxsize=1)
def work_classes() -> tuple[WorkClass, ...]:
    """Return the classes of work in order of priority: the first that fits applies."""
    return read_list(FOLDER / "classes.toml", "class", WorkClass)


class ClassEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A class of work: held rows and their devices, the median and 90th percentile of the absolute error, the median of
    predicted / measured - 1 (`bias`), and factors that contain what was measured. `in_band` is the share of held rows
    inside factors (of their device, if it has its own) that follow from other rows, None if devices are too few. Where
    rows leave facts open, errors are of usual settings, and factors of the nearest of what these allow."""

    name: Annotated[str, column("Class of work")]
    quantity: Annotated[str, column("Figure", keep=1)]
    rows: Annotated[int, column("Rows", "count")]
    devices: Annotated[int, column("Devices", "count", keep=2)]
    median_error: Annotated[float, column("Median err", "%", help="median absolute error")]
    error_90: Annotated[float, column("90th", "%", keep=2, help="90th percentile of the absolute error")]
    bias: Annotated[float, column("Bias", "%", role="delta", keep=3, help="median of predicted / measured - 1")]
    band: Factors
    energy_band: Factors | None = None
    in_band: Annotated[
        float | None,
        column("In band", "%", keep=1, help="share of held rows inside the band of the others; empty: too few"),
    ] = None


class DeviceEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device of a `vendor` that was measured on a class of work with a runtime. `median_error` is that of held rows,
    None without any. `band` follows from the others, None if these are too few."""

    device: str
    work_class: str
    runtime: str
    mode: str
    rows: int
    median_error: float | None = None
    band: Factors | None = None
    vendor: str = ""


class TrustTable(msgspec.Struct, frozen=True):
    """The contents of trust.json."""

    classes: tuple[ClassEvidence, ...] = ()
    measured: tuple[DeviceEvidence, ...] = ()


@lru_cache(maxsize=1)
def trust_table() -> TrustTable:
    """Return the last evaluation of the measurements."""
    return msgspec.json.decode(file_access.read(PATH, MOST), type=TrustTable)


@lru_cache(maxsize=1)
def _by_name() -> tuple[dict[str, ClassEvidence], dict[tuple[str, str], list[DeviceEvidence]]]:
    cells = group_by(trust_table().measured, lambda cell: (cell.device, cell.work_class))
    return {each.name: each for each in trust_table().classes}, cells


def work_class(setup: Setup, kind: str, batch: int, is_parallel: bool) -> str:
    """Return the class of work, '' if no class fits."""
    eligible = _classes_of(setup, kind, is_parallel)
    return next((each.name for each in eligible if each.least_batch <= batch <= each.most_batch), "")


@memoize()
def _classes_of(setup: Setup, kind: str, is_parallel: bool) -> tuple[WorkClass, ...]:
    return tuple(each for each in work_classes() if each.is_of(setup, kind, is_parallel))


@lru_cache
def _relatives(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the makers of devices, and the runtimes, that were measured on such kinds of work on such devices."""
    of_class = {each.name: each for each in work_classes()}
    kinds, on = set(of_class[name].kinds), of_class[name].on
    kinds |= _LANGUAGE if kinds & _LANGUAGE else set()
    alike = {name} | {each.name for each in of_class.values() if kinds & set(each.kinds) and on == each.on}
    cells = [cell for cell in trust_table().measured if cell.work_class in alike]
    if kinds & _LANGUAGE:
        served = [cell for cell in trust_table().measured if cell.work_class == SERVED]
        cells += [cell for cell in served if load_device(cell.device).software_class in on]
    return frozenset(cell.vendor for cell in cells), frozenset(cell.runtime for cell in cells)


def has_relatives(setup: Setup, name: str) -> bool:
    """Return True if devices of its maker, and its engine in this or another version, were measured on such work; any
    engine of a mode if no row names its engine."""
    vendors, runtimes = _relatives(name)
    engine = setup.runtime.mode if runtimes <= _MODES else setup.runtime.id
    is_known = engine in _MODES or any(one.startswith(engine) or engine.startswith(one) for one in runtimes)
    return is_known and setup.device.vendor in vendors


def _narrow(band: Factors, by: float) -> Factors:
    return band[0] ** by, band[1] ** by


@memoize()
def find_trust(setup: Setup, name: str) -> tuple[Trust, Factors | None]:
    """Return how well a class of work is known on a device, and the factors that contain its energy (None if no similar
    work was metered)."""
    device, runtime, mode = setup.device, setup.runtime.id, setup.runtime.mode

    def is_own(row: OwnEvidence | DeviceEvidence) -> bool:
        """Return True for rows of the runtime; if a mode was asked or measured instead, for any in the mode."""
        return row.runtime == runtime or (row.mode == mode and not _MODES.isdisjoint((row.runtime, runtime)))

    groups, cells = _by_name()
    group, rows = groups.get(name), cells.get((device.id, name), [])
    own = next((row for row in device.file.trust if row.work_class in ("", name) and is_own(row)), None)
    if own is not None:
        return Trust("measured", own.rows, own.median_error, (own.low, own.high)), group.energy_band if group else None
    narrower = min((each.narrower for each in device.file.trust), default=1.0)
    widest = _narrow(groups[ENGINEERING].band, narrower)
    if device.silicon and group is not None and runtime != UNKNOWN:
        cell = min(filter(is_own, rows), key=lambda row: row.runtime != runtime, default=None)
        band = _narrow(group.band, narrower)
        if cell is not None:
            error = group.median_error if cell.median_error is None else cell.median_error
            return Trust("measured", cell.rows, error, cell.band or band), group.energy_band
        if has_relatives(setup, name):
            if device.software.not_fitted is not None:
                return Trust("siblings", group.rows, group.median_error, band), group.energy_band
            return Trust("engineering", group.rows, None, widest), None
    return Trust("engineering" if device.silicon else "design_target", 0, None, widest), None
