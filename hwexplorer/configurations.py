"""The axes of grids of configurations in the words of the command line: options, devices with modes and caps."""

from collections.abc import Iterable

from analysis.estimate.estimate import Estimate
from analysis.explore.grid import BATCHES, Axes
from analysis.model.ir.workload import batches_of
from hardware.device import Device, power_caps
from hardware.device_catalog import catalogue_devices as all_devices
from hardware.precision import SWEEP, parse
from hwexplorer import engine
from hwexplorer.options import option, precisions, whole_list
from hwexplorer.settings import BATCH_MAX
from hwexplorer.state import State, replace

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


ALL_DEVICES = ("catalogue",)  # a list of devices that stands for all


def catalogue(on_paper: bool = False) -> tuple[str, ...]:
    """Return the keys of all devices that load. Include design targets if `on_paper`."""
    return tuple(device.key for device in all_devices(engine.folders(), on_paper))


def asks_for_paper(state: State, on_paper: bool = False) -> bool:
    """Return True if design targets may win: by the option, or because the devices were named."""
    return on_paper or state.devices != State().devices


def devices(names: Iterable[str], power_modes: bool, caps: bool = False) -> tuple[str, ...]:
    """Return the keys of devices, each once; with `power_modes` every mode of each, with `caps` each at power caps."""
    named = [engine.device(name) for name in names]
    modes = [(d.key, *(f"{d.id}:{mode}" for mode in d.file.power_modes if mode != d.power_mode)) for d in named]
    keys = [key for each in modes for key in (each if power_modes else each[:1])]
    if caps:
        keys = [engine.device(name).key for key in keys for name in _capped(engine.device(key))]
    return tuple(dict.fromkeys(keys))


def _capped(device: Device) -> list[str]:
    """Return the device at power caps. A cap is set before changes, so it is one that the unchanged device takes."""
    plain_device = engine.device(device.key.removesuffix(device.changes))
    return [f"{name}{device.changes}" for name in power_caps(plain_device)]


def axes_of(
    state: State,
    batches: tuple[int, ...] | None,
    precisions: tuple[str, ...] | None,
    power_modes: bool,
    caps: bool = False,
    sizes: tuple[int, ...] = (),
) -> Axes:
    """Return the axes of a grid around a state: its model (at several image sizes) and its devices, by default at usual
    batches, or that of a training step, and all precisions that suit the model."""
    states = [replace(state, image_size=size) for size in sizes] or [state]
    workloads = tuple(map(engine.workload, states))
    chips = tuple(engine.device(key) for key in devices(state.devices, power_modes, caps))
    stated = (state.batch,) if workloads[0].training and state.batch > 1 else batches_of(workloads[0], BATCHES)
    suiting = tuple(name for name in SWEEP if parse(name).suits(workloads[0].work))
    return Axes(workloads, chips, tuple(batches or stated), precisions or suiting, engine.scenario(state))


def draws_its_cap(result: Estimate) -> bool:
    """Return False for a cap above what the device draws: it is the device without one."""
    return not result.device.power_cap or bool((result.run.price_scale < 1.0).any())
