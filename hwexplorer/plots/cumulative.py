"""The running share of the operators, the heaviest first."""

from __future__ import annotations

import numpy as np

from analysis.estimate.metrics import METRICS
from analysis.estimate.tree import count_making, tree
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.captions import scenario_words
from hwexplorer.views.plain import Plot, Series
from hwexplorer.views.tree_view import shares

PARTS = (0.5, 0.8, 0.9, 0.95, 0.99)


def plot(state: State) -> Plot:
    """Return the plot of a state."""
    result = engine.result(state)
    share = shares(tree(result), state.metric)
    order = np.argsort(-share, kind="stable")
    running = np.cumsum(share[order])
    ids = result.partition.operator_id
    keys = tuple(ids[i] for i in order.tolist())
    places = tuple(float(n) for n in range(1, len(keys) + 1))
    most = {part: count_making(share, part) for part in PARTS}
    title = METRICS[state.metric].title.partition(" ")[0]
    rest = ", ".join(f"{count} make {part * 100:.0f} %" for part, count in most.items() if part != 0.8)
    ends = (1.0, float(max(len(keys), 2)))
    return Plot(
        name="cumulative",
        title=f"Cumulative {title} of {result.workload.name}, {scenario_words(state)} on {result.device.label}",
        x_title="Operators, heaviest first",
        y_title=f"{title} so far",
        x_unit="count",
        y_unit="%",
        series=(
            Series("operators", places, tuple(running.tolist()), keys=keys, labels=keys),
            Series("80 %", ends, (0.8, 0.8), line=True, guide=True),
        ),
        log_x=False,
        log_y=False,
        notes=(f"{most[0.8]} of {len(keys)} make 80 % of the {title}; {rest}",),
    )
