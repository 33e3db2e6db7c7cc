"""Cached figures of a model on a device over many batches, for the plots over the batch."""

from __future__ import annotations

from functools import lru_cache

from analysis.estimate.estimate import estimate_batches
from analysis.estimate.figures import Figures, figures
from analysis.estimate.scenario import Scenario
from analysis.explore.search.catalogue_sweep import BATCHES
from analysis.model.ir.batch_limits import batches_of
from hwexplorer import engine
from hwexplorer.state import State, replace

ALL_BATCHES = (*BATCHES, 256, 512, 1024)


def line(state: State, device: str) -> list[Figures]:
    """Return the figures on a device at each of `ALL_BATCHES` that the model allows and that fits in its memory."""
    return _line(state.model, state.image_size, engine.scenario(replace(state, batch=1)), device)


@lru_cache(maxsize=512)
def _line(model: str, image_size: int | None, scenario: Scenario, device: str) -> list[Figures]:
    workload = engine.captured_model(State(model, image_size))
    batches = batches_of(workload, ALL_BATCHES)
    estimates = estimate_batches(workload, engine.device(device), scenario, batches)
    return [figures(estimate) for estimate in estimates if estimate.fits]


def keys(device: str, points: list[Figures]) -> tuple[str, ...]:
    """Return the keys of points: the device at each batch."""
    return tuple(f"{device}@b{p.batch}" for p in points)
