"""The grids of configurations that sweeps, fronts and searches evaluate, and the options that define them."""

from collections.abc import Iterable

from analysis.explore.deployment_cost import settings
from analysis.explore.search.candidates import Candidate, make_candidate
from analysis.explore.search.catalogue_sweep import BATCHES, Tick, check_lists, estimate_grid
from analysis.model.ir.batch_limits import batches_of
from hardware.device import Device
from hardware.device_catalog import catalogue_devices as all_devices
from hardware.operating_point import power_caps
from hardware.precision import SWEEP
from hwexplorer import engine
from hwexplorer.options import option, precisions, whole_list
from hwexplorer.settings import BATCH_MAX
from hwexplorer.state import State

GRID = (
    option("--batches", type=whole_list("batch", BATCH_MAX), metavar="N,..", singular="batch", applies_to="batch",
           help=f"batches (default {','.join(map(str, BATCHES))})"),
    option("--precisions", type=precisions, metavar="P,..", singular="precision", applies_to="batch",
           help=f"precisions, as fp32,fp16 (default {','.join(SWEEP)}; of sweep: that of the model)"),
    option("--power-modes", action="store_true", help="every power mode of each device as well"),
)  # fmt: skip
CAP = option("--cap", action="store_true", dest="caps", help="power caps of each device too, from 40 % of its limit")
INCLUDE_PAPER = option(
    "--include-design-targets", dest="on_paper", action="store_true",
    help="also rank devices that exist only on paper, in a group of their own; so does naming one",
)  # fmt: skip


def catalogue(on_paper: bool = False) -> tuple[str, ...]:
    """Return the keys of all devices that load. Include design targets if `on_paper`."""
    return tuple(device.key for device in all_devices(engine.folders(), on_paper))


def asks_for_paper(state: State, on_paper: bool = False) -> bool:
    """Return True if design targets may win: by the option, or because the devices were named."""
    return on_paper or state.devices != State().devices


def devices(names: Iterable[str], power_modes: bool, caps: bool = False) -> tuple[str, ...]:
    """Return the keys of devices, each once; with `power_modes` every mode of each, with `caps` each at power caps."""
    keys = [key for name in names for key in (_modes(name) if power_modes else [engine.device(name).key])]
    if caps:
        keys = [engine.device(name).key for key in keys for name in _capped(engine.device(key))]
    return tuple(dict.fromkeys(keys))


def _capped(device: Device) -> list[str]:
    """Return the device at power caps. A cap is set before changes, so it is one that the unchanged device takes."""
    plain_device = engine.device(device.key.removesuffix(device.changes))
    return [f"{name}{device.changes}" for name in power_caps(plain_device)]


def _modes(name: str) -> list[str]:
    """Return the device as named, and its other power modes."""
    device = engine.device(name)
    return [device.key, *(f"{device.id}:{mode}" for mode in device.file.power_modes if mode != device.power_mode)]


def evaluate_grid(
    states: Iterable[State],
    batches: tuple[int, ...] | None,
    precisions: tuple[str, ...] | None,
    power_modes: bool,
    tick: Tick | None,
    caps: bool = False,
) -> list[Candidate]:
    """Evaluate every configuration of the models of the states on the devices of the first state."""
    members = list(states)
    chips = [engine.device(key) for key in devices(members[0].devices, power_modes, caps)]
    results = []
    for workload in map(engine.workload, members):
        sizes, formats = batches or batches_of(workload, BATCHES), precisions or SWEEP
        check_lists("choose from", model=[workload], device=chips, batch=sizes, precision=formats)
        grid = [*estimate_grid([workload], chips, engine.scenario(members[0]), sizes, formats, tick)]
        ordered = [result for start in range(len(sizes)) for result in grid[start :: len(sizes)]]
        # A cap above what the device draws is the device without one.
        distinct = [result for result in ordered if not result.device.power_cap or (result.run.price_scale < 1.0).any()]
        results += [make_candidate(result, settings()) for result in distinct]
    return results
