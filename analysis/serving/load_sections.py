"""A served load in words: what requests wait for, and how many are in the server over time."""

from __future__ import annotations

from analysis.serving.served_load import Served
from analysis.serving.waits import list_waits, timeline
from hardware.quantity import quantity

MOMENTS = 60  # points of a timeline
_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def load_answer(served: Served) -> tuple[str, ...]:
    """Say whether a load is kept up with, and when its requests get their tokens."""
    row = served.row
    simulated = f" (of {served.load.requests:,} simulated requests)" * (row.lag_per_s > 0)
    return (
        f"{row.state}; a request takes {quantity(row.request_p50_s, 's')}",
        f"first token after {quantity(row.ttft_p50_s, 's')}, of the slowest 1 % after {quantity(row.ttft_p99_s, 's')}"
        + simulated,
        f"then a token each {quantity(row.tpot_p50_s, 's')}, of the slowest 1 % each {quantity(row.tpot_p99_s, 's')}",
    )


def load_sections(served: Served) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the waits of the slowest requests, and the timeline of requests in the server, with their headings."""
    waits = sorted(list_waits(served.row.key, served.run), key=lambda wait: -wait.slowest_s)
    lines = tuple(
        f"{wait.slowest_fraction * 100:3.0f} % {wait.part}: {quantity(wait.slowest_s, 's')}, at the median "
        f"{quantity(wait.typical_s, 's')}"
        for wait in waits
    )
    heading = f"Requests in the server over {quantity(served.run.end_of_run_s, 's')}"
    return ("What the slowest 1 % of requests wait for", lines), (heading, _timeline(served))


def _timeline(served: Served) -> tuple[str, ...]:
    """Return the number of requests in the server over time, each line scaled to its maximum."""
    lines = []
    for name, values in zip(("waiting", "prompts", "decoding"), timeline(served.run, MOMENTS), strict=True):
        highest = float(values.max())
        places = (values / (highest or 1.0) * (len(_BLOCKS) - 1)).round().astype(int)
        lines.append(f"{name:<9}{''.join(_BLOCKS[place] for place in places.tolist())} up to {highest:.3g}")
    return tuple(lines)
