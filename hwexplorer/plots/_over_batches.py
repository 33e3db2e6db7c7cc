"""Cached figures of a model on a device over many batches, for the plots over the batch."""

from __future__ import annotations

from functools import lru_cache

from analysis.estimate.estimate import estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.scenario import Scenario
from analysis.explore.search.grid import BATCHES
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import State, replace

ALL_BATCHES = (*BATCHES, 256, 512, 1024)


def point(state: State, device: str) -> Figures | None:
    """Return the figures on a device at the batch of the state. Return None if the model does not fit or run."""
    return _point(state.model, state.image_size, engine.scenario(state), device)


@lru_cache(maxsize=4096)
def _point(model: str, image_size: int | None, scenario: Scenario, device: str) -> Figures | None:
    state = State(model, image_size, scenario.sequence, scenario.kv, scenario.batch)
    try:
        point = figures(estimate(engine.workload(state), engine.device(device), scenario))
    except RequestError:  # the model has a fixed batch
        return None
    return point if point.fits else None


def line(state: State, device: str) -> list[Figures]:
    """Return the figures on a device at each of `ALL_BATCHES` that fits in its memory."""
    points = [point(replace(state, batch=batch), device) for batch in ALL_BATCHES]
    return [p for p in points if p is not None]


def keys(device: str, points: list[Figures]) -> tuple[str, ...]:
    """Return the keys of points: the device at each batch."""
    return tuple(f"{device}@b{p.batch}" for p in points)
