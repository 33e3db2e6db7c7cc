"""The model on a device over many batches, remembered: what plots over the batch share."""

from __future__ import annotations

from functools import lru_cache

from analysis.decide.sweep import BATCHES
from analysis.run.estimate import estimate
from analysis.run.figures import Figures, figures
from analysis.run.scenario import Scenario
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import State, replace

ALL_BATCHES = (*BATCHES, 256, 512, 1024)


@lru_cache(maxsize=4096)
def _point(model: str, image_size: int | None, asked: Scenario, device: str) -> Figures | None:
    state = State(model, image_size, asked.sequence, asked.kv, asked.batch)
    try:
        found = figures(estimate(engine.workload(state), engine.device(device), asked))
    except RequestError:  # a model of one batch has no others
        return None
    return found if found.fits else None


def line(state: State, device: str) -> list[Figures]:
    """The model on a device over all batches, without those that do not fit in its memory."""
    asked = [engine.scenario(replace(state, batch=batch)) for batch in ALL_BATCHES]
    found = [_point(state.model, state.image_size, each, device) for each in asked]
    return [p for p in found if p is not None]


def keys(device: str, points: list[Figures]) -> tuple[str, ...]:
    return tuple(f"{device}@b{p.batch}" for p in points)
