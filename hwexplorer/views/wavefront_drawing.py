"""Drawings of a machine at one moment of an operator, as lines of text with the role of each part."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby

from analysis.explore.wavefront_phases import HIDDEN, START, WavefrontMachine, WavefrontState
from hardware.base.text import count_noun, percent, quantity, whole
from hardware.mapping.common import DRAIN, FILL, NAMES, STREAM, Stages
from hwexplorer import engine
from hwexplorer.views import layout

Part = tuple[str, str]  # text, role of the palette
Line = list[Part]
Cell = Callable[[int, int], Part]
LEAST_WIDTH, LEAST_HEIGHT = 36, 15  # columns and lines of a drawing
_GAP, _BAR = 2, 5  # columns between drawings, and of the bar of joules per cycle
_GLYPHS = {START: "/", FILL: "▒", STREAM: "█", DRAIN: "▓", HIDDEN: "."}
_NONE, _TODO, _RUNNING, _DONE = (" ", "text"), (".", "dim"), ("▒", "warn"), ("█", "bar")
_MOVING = ("█", "accent")  # a diagonal of values on their way through the cells
_STREAMS = {"results": "inputs > v weights", "weights": "inputs > v sums", "inputs": "weights > v sums"}
_LONGER = 1.05  # times its schedule that an operator takes, if it is said
_NAMES = {"static power": "static", "operand delivery": "operands"}
LEGEND = "█ done  ▒ running  . idle · phases: " + " ".join(f"{_GLYPHS[n]} {n}" for n in (START, FILL, STREAM, DRAIN))


def fit_machines(count: int, width: int, height: int) -> tuple[int, int]:
    """Return the columns and rows of drawings that have room, of `count`; at most two stand side by side."""
    columns = 2 if count > 1 and width >= 2 * LEAST_WIDTH + _GAP else 1
    return columns, min(max(height // LEAST_HEIGHT, 1), -(-count // columns))


def draw_machines(machines: Sequence[tuple[WavefrontMachine, WavefrontState]], width: int, height: int) -> list[Line]:
    """Return as many machines as have room, beside and below each other."""
    lines: list[Line] = []
    columns, rows = fit_machines(len(machines), width, height)
    cells = (width + _GAP) // columns - _GAP
    for start in range(0, len(machines), columns):
        drawings = [draw_machine(*pair, cells, height // rows) for pair in machines[start : start + columns]]
        lines += [[part for line in parts for part in line] for parts in zip(*drawings, strict=True)]
    return lines


def draw_machine(machine: WavefrontMachine, state: WavefrontState, width: int, height: int) -> list[Line]:
    """Return the drawing in exactly `height` lines of `width` columns and a gap."""
    stages, rows = machine.stages, max(height - 10, 1)
    index_width = max(width * 2 // 5, 12) if stages.cells[0] else max(width // 2, 1)
    right = max(width - index_width - _GAP, 3)
    m, n, layers = (whole(count) for count in stages.blocks)
    index_head = f"{m} x {n}{f' x {layers}' if stages.blocks[2] > 1 else ''}", "blocks"
    head, units = _array(stages, state, right, rows) if stages.cells[0] else _units(machine, state, right, rows)
    index = _grid(index_width, rows, _index_cell(stages, state, index_width, rows))
    lines = [
        [(engine.marked_key(machine.device), "title")],
        _text(_schedule(machine, state), width),
        _text(_moment(machine, state), width, "strong"),
        *_phase_bar(machine, state, width),
        _energy(machine, state, width),
        _text(_families(machine, state), width),
        _pad([*_pad(_text(index_head, index_width, "dim", " "), index_width), *_text(head, right, "dim")], width),
        *([*_pad(some, index_width), *more] for some, more in zip(index, units, strict=True)),
        _text(_busy(machine, state), width, "dim"),
        _text(_moves(machine), width, "dim"),
    ]
    return [_pad(line, width) for line in lines[:height]]


def _text(parts: Sequence[str], width: int, role: str = "text", between: str = " · ") -> Line:
    """Join as many leading parts as fit; the first is cut if it alone does not."""
    return [(layout.whole(between.join(parts), width, between) or parts[0][:width], role)]


def _pad(line: Line, width: int) -> Line:
    return [*line, (" " * (width + _GAP - sum(len(text) for text, _ in line)), "text")]


def _schedule(machine: WavefrontMachine, state: WavefrontState) -> tuple[str, ...]:
    stages = machine.stages
    if machine.hidden_in:
        return (f"inside {machine.hidden_in}", "no time of its own")
    sizes = [whole(size) for size in stages.block if size > 1.0] or ["1"]
    noun = "blocks of" if len(sizes) > 1 else "blocks, elements:"
    runs = (f"run {whole(state.run)} of {whole(machine.runs)}",) if machine.runs > 1.0 else ()
    keeps = (f"{stages.keeps} stay",) if stages.keeps else ()
    return f"{whole(math.prod(stages.blocks))} {noun} {' x '.join(sizes)}", *runs, *keeps


def _moment(machine: WavefrontMachine, state: WavefrontState) -> tuple[str, ...]:
    is_in_turn = machine.stages.rounds > 1 and state.phase in machine.stages.repeated
    turn = f" {whole(state.round)}/{whole(machine.stages.rounds)}" if is_in_turn else ""
    name = "done" if state.moment >= 1.0 else state.phase + turn
    return name, f"cycle {whole(state.cycle)} of {whole(machine.cycles)}", quantity(state.seconds, "s")


def _phase_bar(machine: WavefrontMachine, state: WavefrontState, width: int) -> list[Line]:
    """Return the phases in the order of time, where some rounds stand for all, and a mark below the moment. What has
    passed has another colour."""
    spans, repeated = {phase.name: phase.seconds for phase in machine.phases}, machine.stages.repeated
    in_turn = [name for name in spans if name in repeated]
    turns = min(machine.stages.rounds, width // 12) if len(in_turn) > 1 else 1
    order = [name for name in (START, FILL) if name in spans and name not in repeated]
    order += in_turn * turns + [name for name in spans if name in (DRAIN, HIDDEN) and name not in repeated]
    cell_s = (machine.latency_s or 1.0) / width
    cells = {name: max(round(spans[name] / cell_s / order.count(name)), 1) for name in order}
    rest = width - sum(cells[name] for name in order if name != STREAM)
    cells[STREAM] = max(rest // max(order.count(STREAM), 1), 1)
    bar = "".join(_GLYPHS[name] * cells[name] for name in order)[:width]
    elapsed = round(state.moment * len(bar))
    return [[(bar[:elapsed], "accent"), (bar[elapsed:], "dim")], [("^".rjust(max(elapsed, 1)), "accent")]]


def _energy(machine: WavefrontMachine, state: WavefrontState, width: int) -> Line:
    """Return the joules per cycle, as a bar against the phase with most, and those of the operator so far."""
    peak_j = max(phase.joules_per_cycle for phase in machine.phases)
    level = round(_BAR * state.joules_per_cycle / peak_j) if peak_j else 0
    so_far = percent(state.energy_j / machine.energy_j if machine.energy_j else 0.0)
    is_done = state.moment >= 1.0 and machine.cycles
    rate = (
        f"mean {quantity(machine.energy_j / machine.cycles, 'J')}" if is_done else quantity(state.joules_per_cycle, "J")
    )
    words = f"{rate}/cycle", f"{so_far} of {quantity(machine.energy_j, 'J')}"
    return [("█" * level, "accent"), ("." * (_BAR - level) + " ", "dim"), *_text(words, width - _BAR - 1)]


def _families(machine: WavefrontMachine, state: WavefrontState) -> Sequence[str]:
    """Write the shares of the families of events in the energy of a phase, once all is done in that of all."""
    phases = [phase for phase in machine.phases if phase.name == state.phase or state.moment >= 1.0]
    whole_j = sum(phase.energy_j for phase in phases) or 1.0
    shares = {name: sum(p.energy_by_family_j[name] for p in phases) / whole_j for name in phases[0].energy_by_family_j}
    names = sorted((name for name in shares if shares[name] >= 0.005), key=lambda name: -shares[name])
    return [f"{_NAMES.get(name, name)} {percent(shares[name])}" for name in names] or [""]


def _index_cell(stages: Stages, state: WavefrontState, width: int, height: int) -> Cell:
    """Return a function that gives the glyph of blocks of M x N. Blocks are taken row by row: the order is that of the
    drawing. A block is done if all its groups and parts of K are; rows share a place if there are many."""
    along_m, along_n, layers = stages.blocks
    finished, begun = state.blocks_done, state.blocks_done + state.blocks_running

    def cell(x: int, y: int) -> Part:
        """Return the glyph at a place."""
        column = min(int((x + 0.5) * along_n / width), along_n - 1)
        begin, end = (y + x / width, y + (x + 1) / width) if along_n == 1 and along_m > height else (y, y + 1)
        row = int(begin * along_m / height)
        last_row = max(math.ceil(end * along_m / height - 1e-9) - 1, row)
        if (last_row * along_n + column + 1) * layers <= finished:
            return _DONE
        return _RUNNING if (row * along_n + column) * layers < begun else _TODO

    return cell


def _units(
    machine: WavefrontMachine, state: WavefrontState, width: int, height: int
) -> tuple[tuple[str, ...], list[Line]]:
    """Return the units, busy or idle, each as wide as there is room. Units without room share a place."""
    count = machine.units
    per_row = min(max(math.ceil(math.sqrt(count)), math.ceil(count / height)), width)
    wide, lines_per_row = width // per_row, max(math.ceil(math.ceil(count / per_row) / height), 1)

    def cell(x: int, y: int) -> Part:
        """Return the glyph of the unit at a place."""
        number = y * lines_per_row * per_row + x // wide
        if x // wide >= per_row or number >= count or (wide > 1 and x % wide == wide - 1):
            return _NONE
        return _RUNNING if number < state.blocks_running else _TODO

    return (count_noun(count, machine.unit),), _grid(width, height, cell)


def _busy(machine: WavefrontMachine, state: WavefrontState) -> tuple[str, ...]:
    k, units = machine.stages.block[2], count_noun(machine.units, machine.unit)
    busy = f"{whole(state.blocks_running)} of {units} busy"
    is_shown = k > 1.0 and not machine.stages.keeps and state.phase == STREAM and state.blocks_running
    return (busy, f"K {whole(math.floor(state.phase_done * k))} of {whole(k)}") if is_shown else (busy,)


def _steps(stages: Stages, state: WavefrontState) -> tuple[float, int]:
    """Return the cycles since the first step of this round, or of all if rounds follow without a gap, entered the
    cells, and the number of steps that enter them."""
    turns = {name: stages.rounds if name in stages.repeated else 1 for name in NAMES}
    fill, stream, drain = (cycles / turns[name] for name, cycles in stages.cycles.items())
    in_turn = FILL in stages.repeated
    all_stream = stream if in_turn else stages.stream
    begin = {FILL: 0.0, STREAM: fill + (0.0 if in_turn else stream * (state.round - 1)), DRAIN: fill + all_stream}
    length = {FILL: fill, STREAM: stream, DRAIN: drain}
    cycles = begin.get(state.phase, 0.0) + length.get(state.phase, 0.0) * state.phase_done
    steps = (fill + all_stream + drain - stages.loading - stages.skew) / stages.beat
    return cycles - stages.loading, max(round(steps), 1)


def _array(stages: Stages, state: WavefrontState, width: int, height: int) -> tuple[tuple[str, ...], list[Line]]:
    """Return the cells of one unit, from the corner where values enter. Cells on the diagonal of a step multiply in
    this cycle; others run between two steps, wait for the first or are done. Cells beyond the edge of a block stay
    idle."""
    (rows, columns), (m, n, k) = stages.cells, stages.block
    down, across = {"results": (m, n * max(m / rows, 1.0)), "weights": (k, n), "inputs": (k, m)}[stages.keeps]
    (now, steps), beat = _steps(stages, state), stages.beat
    high, wide = rows / height, columns / (width - 2)

    def cell(x: int, y: int) -> Part:
        """Return the glyph of the cells at a place, right of the edge where values enter."""
        row, column = math.floor(y * high), math.floor(max(x - 2, 0) * wide)
        if row >= down or column >= across or state.phase not in NAMES:
            return _NONE if x < 2 else _TODO
        last_row, last_column = math.ceil((y + 1) * high) - 1, math.ceil((max(x - 2, 0) + 1) * wide) - 1
        step = min(math.floor((now - row - column) / beat), steps - 1)  # the last that reached the nearest of them
        is_moving = step >= 0 and now - step * beat < max(last_row, row) + max(last_column, column) + 1.0
        if x < 2:
            return (">", "accent") if is_moving and not x else _NONE
        return _MOVING if is_moving else _RUNNING if 0 <= step < steps - 1 else _TODO

    pace = f"a step in {beat:.3g} cycle{'s' * (beat != 1.0)}"
    return (f"{rows} x {columns} cells", pace, _STREAMS[stages.keeps]), _grid(width, height, cell)


def _moves(machine: WavefrontMachine) -> tuple[str, ...]:
    cycles = sum(phase.cycles for phase in machine.phases if phase.name != START) or 1.0
    schedule = sum(phase.schedule_cycles for phase in machine.phases)
    dram, chip = (quantity(size / cycles, "byte") for size in (machine.dram_bytes, machine.on_chip_bytes))
    waits = (f"{cycles / schedule:.2g}x the planned cycles",) if schedule and cycles > _LONGER * schedule else ()
    return f"DRAM {dram}, chip {chip} per cycle", f"bound by {machine.bound}", *waits


def _grid(width: int, height: int, cell: Cell) -> list[Line]:
    """Return the cells (x, y) in lines of as few parts as there are roles in turn."""
    lines = []
    for y in range(height):
        runs = groupby((cell(x, y) for x in range(width)), key=lambda part: part[1])
        lines.append([("".join(text for text, _ in run), role) for role, run in runs])
    return lines
