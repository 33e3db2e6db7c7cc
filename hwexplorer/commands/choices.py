"""What `pareto` and `search` share: the grid of configurations they choose from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hardware.errors import unknown
from hwexplorer.commands import common
from hwexplorer.state import BATCH_MAX, PRECISIONS

if TYPE_CHECKING:
    from analysis.decide.choose import Candidate


def grid_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batches", metavar="N,..", help="batches (default 1,2,4,8,16,32,64,128)")
    parser.add_argument("--precisions", metavar="P,..", help="precisions, as fp32,fp16")
    parser.add_argument("--power-modes", action="store_true", help="every power mode of each device as well")


def precisions(text: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    """The precisions of `fp32,fp16`. Raises RequestError for an unknown one."""
    if text is None:
        return default
    named = common.listed(text, "precision")
    for name in named:
        if name not in PRECISIONS:
            raise unknown("precision", name, PRECISIONS)
    return named


def batches(arguments: argparse.Namespace) -> tuple[int, ...]:
    """The batches of `--batches 1,2,4`, or the one of `--batch`, or the usual ones."""
    from analysis.decide.sweep import BATCHES

    if arguments.batches is not None:
        return common.whole_list(arguments.batches, "batch", BATCH_MAX)
    return (arguments.batch,) if arguments.batch else BATCHES


def modes(name: str) -> list[str]:
    """The device as named, and its other power modes."""
    from hwexplorer import engine

    device = engine.device(name)
    return [device.key, *(f"{device.id}:{mode}" for mode in device.file.power_modes if mode != device.power_mode)]


def catalogue() -> list[str]:
    """The keys of all devices that load."""
    from hardware.device import load_all
    from hwexplorer import engine

    return [device.key for device in load_all(engine.folders())[0]]


def evaluated(arguments: argparse.Namespace, models: tuple[str, ...], all_devices: bool) -> list[Candidate]:
    """Every configuration that the arguments ask for. `all_devices`: without --on, the whole catalogue."""
    from analysis.decide.catalogue_sweep import PRECISIONS as USUAL
    from analysis.decide.choose import candidates
    from analysis.decide.cost import settings
    from hwexplorer import engine
    from hwexplorer.state import replace

    state = common.state(arguments)
    states = [replace(state, model=name) for name in models] if models else [state]
    for each in states:
        common.prepare(each)
    named = catalogue() if all_devices and arguments.on is None and "/" not in arguments.model else list(state.devices)
    keys = [key for name in named for key in (modes(name) if arguments.power_modes else [engine.device(name).key])]
    default = (arguments.precision,) if arguments.precision else USUAL
    return candidates(
        [engine.workload(each) for each in states],
        [engine.device(key) for key in dict.fromkeys(keys)],
        batches(arguments),
        precisions(arguments.precisions, default),
        engine.scenario(state),
        settings(),
        common.ticking("configurations"),
    )
