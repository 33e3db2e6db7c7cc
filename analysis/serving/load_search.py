"""A search for the devices and the layout that serve one load within limits."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import msgspec

from analysis.explore.odds import MOST, SAFE, odds_below
from analysis.model.transformer.config import Config, degrees
from analysis.model.transformer.transformer_request import Request
from analysis.serving.deployment import CommandLine, DoesNotFitError, ParallelDegrees, Server, command_lines
from analysis.serving.request_load import AskedLoad, Load
from analysis.serving.served_load import AIMS, Served, ServedLoad, odds_first, serve_load

STAGES = (1, 2, 4, 8)
ORDERS = ("edp", "energy", "latency", "throughput", "cost")


class LoadSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The deployments that serve a load within limits, the best first of those that are SAFE, then of the bolder ones:
    for each device and layout the fewest replicas.
    `first_odds` is the probability that the first is better than the second, None by cost and throughput, which the
    load fixes if it is kept up with. `nearest` exceeds the limits least, if nothing is found."""

    model: str
    devices: tuple[str, ...]
    limits: str
    order: str
    evaluated: int
    not_fitting: int
    falling_behind: int
    found: tuple[ServedLoad, ...]
    first_odds: float | None
    nearest: ServedLoad | None
    commands: tuple[CommandLine, ...]


def layouts(config: Config, most: int) -> Iterator[ParallelDegrees]:
    """Yield the layouts of one replica of at most `most` devices."""
    shards = [(tp, ep) for tp in degrees(config) for ep in (sorted({1, tp}) if config.experts else (1,))]
    if config.experts:
        shards += [(1, ep) for ep in (2, 4, 8, 16, 32, 64) if config.experts % ep == 0]
    for tp, ep in dict.fromkeys(shards):
        for pp in STAGES:
            layout = ParallelDegrees(tp=tp, ep=ep, pp=pp)
            if layout.devices <= most and pp <= config.layers and tp.bit_count() == 1:
                yield layout


def replicated_layouts(server: Server, load: Load, most: int) -> Iterator[ParallelDegrees]:
    """Yield layouts of at most `most` devices with ever more replicas, from the fewest that keep up."""
    highest = most // server.layout.devices
    replicas = min(max(math.ceil(load.arrivals_per_s / server.capacity_per_s(load)), 1), highest)
    while replicas < highest:
        yield msgspec.structs.replace(server.layout, dp=replicas)
        replicas = min(replicas * 2, highest)
    yield msgspec.structs.replace(server.layout, dp=highest)


def split_layouts(server: Server, load: Load, most: int) -> Iterator[ParallelDegrees]:
    """Yield layouts in which some engines prefill and others decode, divided in proportion to the work of both. The
    number of engines grows from the fewest that keep up."""
    prefill_s, decode_s = server.worker_seconds(load)
    workers = max(math.ceil(load.arrivals_per_s * (prefill_s + decode_s)), 2)
    while workers <= most // server.layout.shards and server.layout.pp == 1:
        prefill = min(max(round(workers * prefill_s / (prefill_s + decode_s)), 1), workers - 1)
        yield msgspec.structs.replace(server.layout, dp=1, prefill=prefill, decode=workers - prefill)
        workers *= 2


def search_layouts(
    request: Request,
    asked: AskedLoad,
    devices: Sequence[str],
    most: int,
    order: str,
    find_server: Callable[[str, ParallelDegrees], Server],
    tick: Callable[[int, int], None] | None,
) -> LoadSearch:
    """Serve the load that is asked of a model on each device in each layout of at most `most` devices. Use as many
    replicas, or prefill and decode engines, as keep up and satisfy the limits."""
    load, drafts = asked.load, asked.spec.spec
    # A layout opens its model once. Stages do not take drafts (vLLM: features, speculative decoding).
    shapes = (layout for layout in layouts(request.config, most) if layout.pp == 1 or not drafts)
    candidates = list(product(shapes, devices))
    tried, not_fitting = list[Served](), 0
    for done, (layout, device) in enumerate(candidates, 1):
        if tick is not None:
            tick(done, len(candidates))
        try:
            server = find_server(device, layout)
        except DoesNotFitError:
            not_fitting += 1
            continue
        for choices in (replicated_layouts(server, load, most), split_layouts(server, load, most)):
            last: list[Served] = []
            for each in choices:  # until one keeps the limits
                count = each.devices
                key = f"{device}*{count}" if count > 1 else device
                last = [serve_load(msgspec.structs.replace(server, layout=each), key, asked)]
                if last[0].is_within_limits:
                    break
            tried += last
    within = sorted((one for one in tried if one.is_within_limits), key=lambda one: _order(one, order))
    first = within[0] if within else None
    # The second deployment competes with the first if both exist, or both are on paper.
    has_rival = len({one.server.first.device.silicon for one in within[:2]}) == 1 < len(within)
    return LoadSearch(
        model=request.text,
        devices=tuple(devices),
        limits=asked.limits.words,
        order=order,
        evaluated=len(tried) + not_fitting,
        not_fitting=not_fitting,
        falling_behind=sum(one.row.lag_per_s > 0 for one in tried),
        found=tuple(msgspec.structs.replace(one.row, odds=_odds_of_keeping(one)) for one in within),
        first_odds=odds_first(within[0], within[1], order) if has_rival and order in AIMS else None,
        nearest=None if within or not tried else min(tried, key=lambda one: (one.row.lag_per_s > 0, one.excess)).row,
        commands=command_lines(first.server, asked.longest, drafts) if first is not None else (),
    )


def order_figure(row: ServedLoad, order: str) -> float:
    """Return the figure that an order minimises."""
    own = {"cost": row.usd_per_million_tokens or math.inf, "throughput": -row.tokens_per_s / row.devices}
    return own.get(order, row.figure(order))


def _order(served: Served, order: str) -> tuple[bool, bool, float, int]:
    """Return the sort key of a deployment: those that are SAFE come first, devices on paper last."""
    is_bold = _odds_of_keeping(served) < SAFE
    return not served.server.first.device.silicon, is_bold, order_figure(served.row, order), served.row.devices


def _odds_of_keeping(served: Served) -> float:
    row, limits = served.row, served.asked.limits
    figures = ((row.ttft_p99_s, limits.ttft_s, True), (row.tpot_p99_s, limits.tpot_s, False))
    odds = [odds_below(value, row.band(value, first), limit) for value, limit, first in figures if limit < math.inf]
    return min([MOST, *odds])
