"""The EDP tree as rows: by module, subgraph or kind of operator, sorted by `state.sort`, with every device
(`state.heat`) and with measured times (`state.trace`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import numpy as np

from analysis.document import Cell, Column
from analysis.estimate import causes, tree_figures
from analysis.estimate.causes import CAUSES, divide_host_work
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import describe_deviations
from analysis.estimate.metrics import METRICS
from analysis.model.ir.workload import Floats, Ints
from analysis.wording import SAME, describe_change, work_word
from hardware.base import plugins
from hardware.base.errors import RequestError, unknown
from hardware.base.text import count_noun, quantity
from hardware.demand import NDArray
from hardware.what_if import split_changes, with_unchanged
from hwexplorer import engine
from hwexplorer.state import EACH, TRACE_SORTS, State, pinned, replace
from hwexplorer.views import plain
from hwexplorer.views.captions import place_in_words
from hwexplorer.views.device_rows import rank_devices
from hwexplorer.views.tables import name_work

RATIO_MAX = 1000.0  # measured over predicted; a larger one is of an operator that takes no time of its own
TERMS = {"": "", **plain.CAUSE_NAMES}


class NodeTime(Protocol):
    """The measured time of some operators. `ratio` is measured over predicted time, None if the trace has none of them;
    `term` is the cause of most of the difference; `missing_s` is the predicted time of operators not in the trace."""

    measured_s: float
    predicted_s: float
    ratio: float | None
    share: float
    term: str
    missing_s: float


class MeasuredTimes(Protocol):
    """A trace aligned with an estimate."""

    @property
    def seconds(self) -> Floats:
        """The measured seconds of each operator, (n,); NaN for an operator that is not in the trace."""

    def time(self, members: Sequence[int] | Ints) -> NodeTime:
        """Return the measured time of these operators."""


def measured_times(state: State, result: Estimate) -> MeasuredTimes | None:
    """Return the state's trace, aligned with the estimate. Return None if there is no trace or it cannot be read."""
    with suppress(RequestError):
        times: MeasuredTimes | None = trace_annex().measured_operators(state, result) if state.trace else None
        return times
    return None


def trace_notes(state: State, result: Estimate) -> tuple[str, ...]:
    """Return lines on how the trace and the estimate agree, or why the trace cannot be read; empty without a trace."""
    try:
        return tuple(trace_annex().trace_notes(state, result)) if state.trace else ()
    except RequestError as error:
        return (str(error),)


def trace_warning(state: State, result: Estimate) -> str:
    """Return the warning that the trace is of another model, batch or device; '' without a warning."""
    return next((note for note in trace_notes(state, result) if note.startswith("Warning")), "")


def is_read(file: str) -> bool:
    """Return True if no trace is named, or the named file does not have to be read first."""
    with suppress(RequestError):
        return not file or bool(trace_annex().is_read(file))
    return True


def trace_annex() -> Any:
    """Return the reader of traces. Raises RequestError if it is not installed."""
    return plugins.load("readers", "trace")


def compare_times(measured_s: float, predicted_s: float) -> str:
    """Write `1.3x slower than the predicted 4.00 ms`."""
    if not predicted_s or 1 / SAME < measured_s / predicted_s < SAME:
        return f"as predicted ({quantity(predicted_s, 's')})"
    change = describe_change(measured_s / predicted_s, "faster", "slower")
    return f"{change} than the predicted {quantity(predicted_s, 's')}"


def measured_cells(times: MeasuredTimes, members: Sequence[int] | Ints) -> tuple[Cell, ...]:
    """Return the measured seconds, their ratio to the predicted seconds, and the term; empty if not in the trace."""
    time = times.time(members)
    if time.ratio is None:
        return None, None, ""
    return time.measured_s, time.ratio if time.ratio < RATIO_MAX else None, TERMS[time.term]


def add_measured_step(
    times: MeasuredTimes, members: Ints, predicted: Sequence[plain.WaterfallStep]
) -> tuple[plain.WaterfallStep, ...]:
    """Return the waterfall with the measured time as its last bar, in the colour of the cause of most of the
    difference. All bars have one scale."""
    time, total_s = times.time(members), sum(step.seconds for step in predicted)
    if time.ratio is None or total_s <= 0:
        return tuple(predicted)
    shrunk = total_s / max(total_s, time.measured_s)
    scaled = [
        plain.WaterfallStep(
            step.name, step.seconds, step.start * shrunk, plain.Stack([part * shrunk for part in step.bar.parts])
        )
        for step in predicted
    ]
    bar = plain.Stack([time.measured_s / total_s * shrunk * (cause == time.term) for cause in CAUSES])
    return (*scaled, plain.WaterfallStep("measured", time.measured_s, 0.0, bar))


def add_measured_fields(node: dict[str, Any], times: MeasuredTimes, result: Estimate) -> None:
    """Add measured fields to a nested node of the tree's document, and to those below it."""
    time = times.time(tree_figures.operators_of(result, node["id"]))
    if time.ratio is not None and node["kind"] not in ("host", "part"):  # not in a trace
        node.update(measured_s=time.measured_s, ratio=time.ratio, term=time.term)
    for child in node.get("children", ()):
        add_measured_fields(child, times, result)


COLUMNS = (
    Column("name", "Node", role="text", keep=0, help="×6: six alike, added up; 2 fused: two more in its kernel"),
    Column("bar", "EDP share", "%", role="bar", keep=0, help=f"share of the model, by cause: {plain.HELP}"),
    Column("share", "%", "%", keep=0),
    Column("latency", "Time", "s", keep=0),
    Column("energy_per_inference", "Energy/inf", "J", keep=1),
    Column(
        "edp", "EDP share", "Js", keep=3,
        help="part of the model's EDP: parts of a level add up, energy x time of rows does not",
    ),
    Column("bound", "Limit", role="text", keep=2, help="memory: DRAM; on-chip: memory on the chip"),
    Column("cumulative", "Cum %", "%", keep=7, help="cumulative share, with the level sorted by share"),
    Column("kind", "Kind", role="text", keep=4),
    Column("utilization", "Util", "%", keep=6, help="share of the peak in the format that runs"),
    Column("macs", "MAC", "MAC", keep=6),
    Column("dram", "DRAM", "byte", keep=7, help="bytes read from and written to memory"),
    Column("base", "Base EDP", "Js", keep=8, help="EDP of its arithmetic and bytes alone"),
    Column("modifier", "Modifier", "x", role="quantity", keep=8,
           help="EDP over its base, that of its arithmetic and bytes alone; blank without work"),
    Column("benefit", "Saved by fusion", "Js", keep=9, help="EDP that fusion saves in this node"),
)  # fmt: skip
FORMAT = Column("format", "Format", role="text", keep=1, help="of its products, if layers have formats of their own")
MEASURED = (
    Column("measured", "Measured", "s", keep=0, scale="latency", help="from the state's trace"),
    Column("ratio", "vs predicted", "x", role="quantity", keep=0, help="measured over predicted time"),
    Column("term", "Term", role="text", keep=2, help="cause of the operators with the largest difference"),
)
# With a pin, the change of a metric follows the column of its figure.
CHANGES = {
    metric: (key, Column(f"{metric}_change", f"Δ {word}", "%", role="delta", keep=1, help="against the pin"))
    for metric, key, word in (("latency", "latency", "time"), ("energy", "energy_per_inference", "energy"))
}
METRIC_TITLE = {"edp": "EDP share", "energy": "Energy share", "latency": "Time share"}


def tree(state: State) -> plain.Table:
    """Return all rows of the tree on the device under the cursor, divided by `state.by`. The key of the root is ''."""
    figures = tree_figures.tree_without_host(engine.result(state))
    result = figures.estimate
    nodes = list(tree_figures.draw_outline(result, state.by, state.split_branches).walk())
    branches = [branch for _, branch in nodes]
    add_up = tree_figures.sum_over_branches(result, branches)
    level = tree_figures.branch_figures(result, branches, add_up)
    parts = _shares_by_cause(result, add_up, state.metric)
    facts = np.stack([~figures.fused, ~result.workload.operators.has_rule]).astype(np.float64)
    are_separate, without_rule = (add_up(facts) > 0).tolist()  # for any operator of a node
    measured = _trace_cells(state, result, branches)
    by_key = _cells(figures, nodes, level, parts, add_up, are_separate) | measured | _changes_since_pin(state, branches)
    columns = _columns(state, result, by_key)
    cells = list(zip(*(by_key[column.key] for column in columns), strict=True))
    is_falling = state.descending != (state.sort in ("graph", "name"))
    rows: list[plain.Row] = []
    for i in _sorted_places(nodes, _ranks(state.sort, branches, level, parts.sum(axis=0), measured), is_falling):
        depth, branch = nodes[i]
        kind = branch.type if branch.kind in ("subgraph", "operator") else branch.kind
        dim = branch.kind == "operator" and without_rule[i]
        rows.append(
            plain.Row(branch.key, cells[i], depth=depth, has_children=bool(branch.children), kind=kind, dim=dim)
        )
    notes = tuple(note for note in trace_notes(state, result) if note != trace_warning(state, result))
    footer = engine.outcome(state).notes
    table = plain.Table("tree", _title(state, result), columns, tuple(rows), footer, notes)
    return name_work(table, work_word(result))


def _columns(state: State, result: Estimate, by_key: dict[str, Sequence[Cell]]) -> tuple[Column, ...]:
    """Return the columns of a tree: those of the formats, the pin and the trace only if there are such."""
    is_summed = state.sort in ("share", "graph") and state.descending  # in order of share, or as in JSON
    shown: dict[str, dict[str, Any]] = {
        "bar": {"title": METRIC_TITLE[state.metric]},
        "latency": {"keep": 2 * (state.metric != "latency")},
        "energy_per_inference": {"keep": 2 * (state.metric != "energy")},
    }
    columns = [
        msgspec.structs.replace(column, **shown.get(column.key, {}))
        for column in COLUMNS
        if column.key != "cumulative" or is_summed
    ]
    if result.formats:
        columns.insert(1, FORMAT)
    for after, change in CHANGES.values():
        if change.key in by_key:
            columns.insert([column.key for column in columns].index(after) + 1, change)
    return (*columns, *(column for column in MEASURED if column.key in by_key))


def _changes_since_pin(state: State, branches: list[tree_figures.Branch]) -> dict[str, Sequence[Cell]]:
    """Return the cells of changes since the pin, by the key of their column."""
    if not state.pin:
        return {}
    now, before = (costs_by_node(side, branches) for side in (state, pinned(state) or state))
    return {
        change.key: [
            a / b - 1.0 if a is not None and b else None for a, b in zip(now[metric], before[metric], strict=True)
        ]
        for metric, (_, change) in CHANGES.items()
        if state.metric in (metric, "edp")
    }


def _sorted_places(
    nodes: list[tuple[int, tree_figures.Branch]], ranks: Sequence[Any], is_falling: bool
) -> Iterator[int]:
    """Yield the indices of nodes in depth-first order, with siblings sorted by rank."""
    children: list[list[int]] = [[] for _ in nodes]
    path: list[int] = []
    for i, (depth, _) in enumerate(nodes):
        del path[depth:]
        if path:
            children[path[-1]].append(i)
        path.append(i)
    waiting = [0]
    while waiting:
        yield (i := waiting.pop())
        waiting += (
            sorted(children[i], key=ranks.__getitem__, reverse=is_falling)[::-1] if children[i][1:] else children[i]
        )


def _trace_cells(state: State, result: Estimate, branches: list[tree_figures.Branch]) -> dict[str, Sequence[Cell]]:
    """Return the cells of measured times by the key of their column; empty without a trace."""
    times = measured_times(state, result)
    if times is None:
        return {}
    no_cells: tuple[Cell, ...] = (None, None, "")  # a trace has neither the host's work nor parts of a kernel
    rows = (
        no_cells if branch.kind in ("host", "part") else measured_cells(times, branch.members) for branch in branches
    )
    return dict(zip((column.key for column in MEASURED), zip(*rows, strict=True), strict=True))


def node_key(result: Estimate, path: str) -> str:
    """Return the key of the row of a node. Raises RequestError for an unknown node."""
    kind, index = tree_figures.find_node(result, path)
    ids = {"model": ("",), "subgraph": result.partition.id, "operator": result.partition.operator_id}
    return ids[kind][index] if kind in ids else path


def _subtree(state: State) -> plain.Table:
    """Return the rows of the state's node and below, or the whole tree for the model. Raises RequestError."""
    model, result = tree(state), engine.result(state)
    model = replace(model, notes=(*model.notes, *describe_deviations(result)))
    if not state.at:
        counts = ((len(result.partition.id), "subgraph"), (result.workload.n_operators, "operator"))
        line = ", ".join(count_noun(*count) for count in (*counts, (result.demand.n_kernels, "kernel")))
        return replace(model, footer=(*model.footer, line))
    key = node_key(result, state.at)
    keys = [row.key for row in model.rows]
    if key not in keys and key.partition("/")[0] not in keys:
        # A node without a row here has one in the tree by module with the blocks above it shown one by one.
        words = key.partition("/")[0].split(".")
        above = {".".join(words[:count]) + EACH for count in range(len(words))}
        if state.by == "module" and above <= set(state.open):
            raise unknown("node", state.at, keys)
        return _subtree(replace(state, by="module", open=tuple(sorted(above | set(state.open)))))
    start = keys.index(key if key in keys else key.partition("/")[0])
    top = model.rows[start]
    rows = tuple(replace(row, depth=row.depth - top.depth) for row in (top, *plain.rows_below(model.rows, start)))
    return replace(model, title=_title(state, result, state.at), rows=rows, footer=("shares are of the whole model",))


def _title(state: State, result: Estimate, node: str = "") -> str:
    """Return the warning about a trace and the subject. The node under the cursor does not change the tree's title."""
    return "; ".join(filter(None, (trace_warning(state, result), place_in_words(state, at=node))))


def _names(figures: tree_figures.TreeFigures, nodes: list[tuple[int, tree_figures.Branch]]) -> list[str]:
    """Return the names of nodes. ` (2 fused)` is the number of further operators in the kernel of a subgraph; ` ×6` is
    the number of blocks that a node merges, unless the node above it merges the same number."""
    names, counts = [], [1]
    for depth, branch in nodes:
        del counts[depth + 1 :]
        others = len(branch.members) // branch.count - 1 if branch.kind == "subgraph" and depth else 0
        how = "fused" if others and figures.fused[branch.members].any() else "more"
        times = f" ×{branch.count}" if branch.count != counts[-1] else ""
        names.append(branch.name + times + f" ({others} {how})" * (others > 0))
        counts.append(branch.count)
    return names


def shares(figures: tree_figures.TreeFigures, metric: str) -> Floats:
    """Return the share of each operator in a metric of the model, shape (n,)."""
    result, level = figures.estimate, figures.operators
    of_cost = {
        "energy": level.energy_j / (result.energy_j or 1.0),
        "latency": level.latency_s / (result.latency_s or 1.0),
    }
    return of_cost.get(metric, level.share)


def costs_by_node(state: State, branches: list[tree_figures.Branch]) -> dict[str, list[float | None]]:
    """Return each node's own energy per inference in J, time in s, and their product, by metric. The branches may be of
    another model or device: the figures are None for a key that the state's tree does not have."""
    result, shown_branches = engine.result(state), branches
    host = tree_figures.host_branches(result)
    if len(branches[0].members) != result.workload.n_operators:
        shown_branches = [
            branch for _, branch in tree_figures.draw_outline(result, state.by, state.split_branches).walk()
        ]
    elif ("host" in [branch.kind for branch in branches]) != bool(host):
        shown_branches = [*(branch for branch in branches if branch.kind != "host"), *host]
    add_up = tree_figures.sum_over_branches(result, shown_branches)
    shares = {name: _shares_by_cause(result, add_up, name).sum(axis=0) for name in ("energy", "latency")}
    costs = {name: share * METRICS[name].figure(result) for name, share in shares.items()}
    costs["edp"] = costs["energy"] * shares["latency"] * METRICS["latency"].figure(result)
    if shown_branches is branches:
        return {metric: figures.tolist() for metric, figures in costs.items()}
    place = {branch.key: place for place, branch in enumerate(shown_branches)}
    places = [place.get(branch.key) for branch in branches]
    return {metric: [None if at is None else float(figures[at]) for at in places] for metric, figures in costs.items()}


def _shares_by_cause(result: Estimate, add_up: Callable[..., Floats], metric: str) -> Floats:
    """Return the share of each node in the model by cause, (6, k)."""
    rest, host = causes.causes_without_host(result)
    share_of_host = None if host is None else causes.shares_of_causes(host, result, metric)
    return add_up(causes.shares_of_causes(rest, result, metric), share_of_host)


def _cells(
    figures: tree_figures.TreeFigures,
    nodes: list[tuple[int, tree_figures.Branch]],
    level: tree_figures.TreeLevel,
    parts: Floats,
    add_up: Callable[..., Floats],
    apart: Sequence[bool],
) -> dict[str, Sequence[Cell]]:
    """Return the cells of all nodes by the key of their column."""
    result = figures.estimate
    share = parts.sum(axis=0)
    rest, host = divide_host_work(result)
    bound_s, of_host = np.zeros((2, len(causes.LIMITS), result.demand.n))
    bound_s[causes.limits(result)[result.demand.kernel], np.arange(result.demand.n)] = rest.run.latency_s
    if host is not None:
        of_host[causes.LIMITS.index("launch")] = host.run.latency_s
    bound = add_up(bound_s, of_host).argmax(axis=0)
    modifier = level.modifier.copy()
    modifier[0] = 1.0
    return {
        "name": _names(figures, nodes),
        "bar": list(map(plain.Stack, parts.T.tolist(), share.tolist())),
        "share": share.tolist(),
        "edp": level.edp_js.tolist(),
        "latency": [
            plain.Worded(0.0, "fused") if not time_s and branch.kind == "operator" and not is_separate else time_s
            for time_s, (_, branch), is_separate in zip(level.latency_s.tolist(), nodes, apart, strict=True)
        ],
        "energy_per_inference": (level.energy_j / result.scenario.batch).tolist(),
        # A fused operator that adds no time has no limit.
        "bound": [causes.LIMITS[b] if s else "" for b, s in zip(bound.tolist(), level.latency_s.tolist(), strict=True)],
        "cumulative": running_shares(np.array([depth for depth, _ in nodes]), share).tolist(),
        "format": [format_of(result, branch) for _, branch in nodes],
        "kind": [branch.kind if branch.kind == "model" else branch.type for _, branch in nodes],
        "utilization": level.utilization.tolist(),
        "macs": level.macs.tolist(),
        "dram": level.dram_bytes.tolist(),
        "base": level.base_edp_js.tolist(),
        "modifier": [tree_figures.modifier_or_none(value) for value in modifier.tolist()],
        "benefit": level.fusion_benefit_js.tolist(),
    }


def format_of(result: Estimate, branch: tree_figures.Branch) -> str:
    """Return the format of a node, or how many it has; '' if all layers have one."""
    if not result.formats or branch.kind == "host":
        return ""
    forms = list(dict.fromkeys(result.formats[i] for i in branch.members))
    return forms[0] if len(forms) == 1 else f"{len(forms)} formats"


def running_shares(depths: NDArray[np.integer[Any]], share: Floats) -> Floats:
    """Return the running share of each node within its level. A leaf also counts in all levels below it, so that every
    level adds up to the model."""
    running = np.zeros(len(share))
    is_leaf = np.append(depths[1:] <= depths[:-1], True)
    for depth in range(int(depths.max()) + 1):
        level = (depths == depth) | (is_leaf & (depths < depth))
        running[depths == depth] = tree_figures.cumulative_share(share[level])[depths[level] == depth]
    return running


def _ranks(
    sort: str,
    branches: list[tree_figures.Branch],
    level: tree_figures.TreeLevel,
    share: Floats,
    measured: dict[str, Sequence[Cell]],
) -> Sequence[Any]:
    """Return the sort key of each node."""
    if sort in TRACE_SORTS and measured:
        return [value or 0.0 for value in measured[sort]]
    if sort in ("graph", "name"):
        return range(len(branches)) if sort == "graph" else [branch.key for branch in branches]
    figures = {"latency": level.latency_s, "energy": level.energy_j}.get(sort, share)
    return list[float](figures.tolist())


ON, PAPER = "on:", "paper:"  # prefix of the key of a device's column: an existing device, a design target
_KEPT = ("name", "bar")
TIE, _SAME = "tie", 1e-9  # sums in another order differ by less
WINS = Column("wins", "Wins", role="text", keep=3, help="the existing device with the least")


def view(state: State) -> plain.Table:
    """Return the tree of the state; with `state.heat`, it has a column for each device in the metric of the state."""
    return heat(tree(state), state) if state.heat else tree(state)


def subtree(state: State) -> plain.Table:
    """Return the same for the node of the state and all nodes below it."""
    return heat(_subtree(state), state) if state.heat else _subtree(state)


def heat(table: plain.Table, state: State) -> plain.Table:
    """Return the tree with each row's own figure on each device, `fused` if it adds no time to its kernel. The existing
    device with the least wins; a design on paper and a device without room for the model never do."""
    names = with_unchanged(state.devices)
    outline = tree_figures.draw_outline(engine.result(state), state.by, state.split_branches)
    branches = [branch for _, branch in outline.walk()]
    places = {branch.key: place for place, branch in enumerate(branches)}
    figures = {name: costs_by_node(replace(state, devices=names, on=name), branches)[state.metric] for name in names}
    rivals = [name for name in names if engine.result(state, name).fits and engine.device(name).silicon]
    kept_columns = [i for i, column in enumerate(table.columns) if column.key in _KEPT]
    wins: Counter[str] = Counter()
    order, rows = rank_devices(state), []
    for row in table.rows:
        values = {name: costs[places[row.key]] for name, costs in figures.items()}
        winner = _least(values, rivals)
        if row.depth == 1:
            wins[winner] += 1
        of_devices = (plain.Worded(0.0, "fused") if values[name] == 0.0 else values[name] for name in order)
        rows.append(replace(row, cells=(*(row.cells[i] for i in kept_columns), *of_devices, winner)))
    kept = [replace(table.columns[i], keep=2 * (i > 0)) for i in kept_columns]  # the share falls away before a device
    columns = [*kept, *(_column(name, state, order) for name in order), WINS]
    footer = _count_wins(wins, state.metric) or table.footer
    if left_out := [engine.marked_key(name) for name in names if not engine.device(name).silicon]:
        footer += (f"not counted: {', '.join(left_out)}",)
    labels = ", ".join(engine.device(name).label for name in names)
    title = f"{table.title.rpartition(' on ')[0]} on {labels}"
    return replace(table, title=title, columns=tuple(columns), rows=tuple(rows), footer=footer)


def _count_wins(wins: Counter[str], metric: str) -> tuple[str, ...]:
    """Return a line on which device has the least in how many parts; nothing if no device has."""
    parts, not_compared = wins.total(), wins.pop("", 0)
    counted = [
        *(f"{engine.marked_key(name)} {count}" for name, count in wins.most_common() if name != TIE),
        *[f"{wins[TIE]} tied"] * (wins[TIE] > 0),
        *[f"{not_compared} not compared, since a kernel hides them"] * (not_compared > 0),
    ]
    return (f"least {METRICS[metric].noun} of {parts} parts: {', '.join(counted)}",) if wins else ()


def _column(name: str, state: State, order: Sequence[str]) -> Column:
    """Return the column of a device. The only one with changed facts is named by its braces."""
    base, changes = split_changes(name)
    is_only = sum(split_changes(device_name)[0] == base for device_name in order) <= 2
    title = f"{base}{{..}}" if changes and is_only else engine.marked_key(name)
    metric, mark = METRICS[state.metric], ON if engine.device(name).silicon else PAPER
    keep = 0 if name in (order[0], state.on) else 1
    return Column(
        mark + name, title, metric.unit, role="quantity", keep=keep, help=f"{metric.title} of the row by itself",
        short=title.replace(" (paper)", " ○"),
    )  # fmt: skip


def _least(values: Mapping[str, float | None], among: list[str]) -> str:
    """Return the device with the least value, `TIE` if several have it, '' if none has a value or a device hides it."""
    known = {name: value for name in among if (value := values[name]) is not None}
    if not known or not all(known.values()):
        return ""
    first, *others = (name for name in known if known[name] <= min(known.values()) * (1.0 + _SAME))
    return TIE if others else first
