"""The tree with one metric on every device side by side, and which device wins each row."""

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis.document import Column
from analysis.estimate.metrics import METRICS
from analysis.estimate.outline import Branch, outline
from analysis.explore.levels import find_winner
from analysis.text.headline import describe_change
from hardware.what_if import split_changes, with_unchanged
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import tree_view
from hwexplorer.views.device_rows import rank_devices
from hwexplorer.views.plain import Amount, Table

ON, PAPER = "on:", "paper:"  # prefix of the key of a device's column: an existing device, a design target
_KEPT = ("name", "bar")
TIE = "tie"
WINS = Column("wins", "Wins", role="text", keep=3, help="the existing device with the least")
TARGET = Column("on_paper", "On paper", role="text", keep=3, help="the design on paper with the least; it does not win")


def view(state: State) -> Table:
    """Return the tree of the state; with `state.heat`, it has a column for each device in the metric of the state."""
    return heat(tree_view.tree(state), state) if state.heat else tree_view.tree(state)


def subtree(state: State) -> Table:
    """Return the same for the node of the state and all nodes below it."""
    return heat(tree_view.subtree(state), state) if state.heat else tree_view.subtree(state)


def heat(table: Table, state: State) -> Table:
    """Return the tree with each row's own figure on each device. The existing device with the least wins. A design
    target is only compared with the winner. A device without room for the model never wins."""
    branches = [branch for _, branch in outline(engine.result(state), state.by, state.split_branches).walk()]
    keys, names = [branch.key for branch in branches], with_unchanged(state.devices)
    figures = {
        name: dict(zip(keys, _figures(replace(state, devices=names, on=name), branches), strict=True)) for name in names
    }
    fitting = [name for name in names if engine.result(state, name).fits]
    silicon = [name for name in fitting if engine.device(name).silicon]
    on_paper = [name for name in fitting if name not in silicon]
    kept_columns = [i for i, column in enumerate(table.columns) if column.key in _KEPT]
    deltas = [i for i, column in enumerate(table.columns) if column.role == "delta"]
    wins: Counter[str] = Counter()
    compared_rows = []
    for row in table.rows:
        values = {name: figures[name].get(row.key) for name in names}
        winner = _least(values, silicon)
        if row.depth == 1:
            wins[winner] += 1
        words = (winner, *([_target(values, _least(values, on_paper), winner)] if on_paper else []))
        compared_rows.append((row, values, words))
    order = rank_devices(state)
    columns = [*(table.columns[i] for i in kept_columns), *(_column(name, state, order) for name in order), WINS]
    columns += [*([TARGET] if on_paper else []), *(table.columns[i] for i in deltas)]
    rows = []
    for row, values, words in compared_rows:
        cells_before, cells_after = ([row.cells[i] for i in places] for places in (kept_columns, deltas))
        rows.append(replace(row, cells=(*cells_before, *map(values.get, order), *words, *cells_after)))
    parts = wins.total()
    tied = f", {wins.pop(TIE)} tied" if wins[TIE] else ""
    won = ", ".join(f"{name} wins {count}" for name, count in wins.most_common() if name) + tied
    footer = (f"least {METRICS[state.metric].noun} of {parts} parts: {won}",) if won else table.footer
    labels = ", ".join(engine.device(name).label for name in names)
    title = f"{table.title.rpartition(' on ')[0]} on {labels}"
    return replace(table, title=title, columns=tuple(columns), rows=tuple(rows), footer=footer)


def _figures(state: State, branches: list[Branch]) -> list[float | None]:
    """Return the figure of each node. Work that takes no time of its own has no product: its energy is compared."""
    costs = tree_view.costs_by_node(state, branches)
    return [
        Amount(energy or 0.0, "J") if figure == 0.0 and state.metric == "edp" else figure
        for figure, energy in zip(costs[state.metric], costs["energy"], strict=True)
    ]


def _column(name: str, state: State, order: Sequence[str]) -> Column:
    """Return the column of a device. The only one with changed facts is named by its braces."""
    base, changes = split_changes(name)
    is_only = sum(split_changes(device_name)[0] == base for device_name in order) <= 2
    title = f"{base}{{..}}" if changes and is_only else engine.marked_key(name)
    metric, mark = METRICS[state.metric], ON if engine.device(name).silicon else PAPER
    keep = 0 if name == order[0] else 1 if name == state.on else 2
    return Column(
        mark + name, title, metric.unit, role="quantity", keep=keep, help=f"{metric.title} of the row by itself"
    )


def _least(values: Mapping[str, float | None], among: list[str]) -> str:
    """Return the device with the least value, `TIE` if several have it, '' if none has a value."""
    known = {name: value for name in among if (value := values[name]) is not None}
    costs = {name: (0.0, value) if isinstance(value, Amount) else (value, 0.0) for name, value in known.items()}
    return find_winner(costs)[0] or TIE * bool(costs)


def _target(values: Mapping[str, float | None], target: str, winner: str) -> str:
    """Write a design target and its ratio to the winner: `kpu_t256 3.1x less`."""
    target_value, winner_value = values.get(target), values.get(winner)
    is_mixed = isinstance(target_value, Amount) != isinstance(winner_value, Amount)
    if not target_value or not winner_value or is_mixed:
        return target
    return f"{target} {describe_change(target_value / winner_value, 'less', 'more') or 'the same'}"
