"""Drawings of a machine at one moment of an operator, as lines of text with the role of each part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from analysis.explore.wavefront_phases import HIDDEN, START, WavefrontMachine, WavefrontState
from hardware.mapping.stages import DRAIN, FILL, LOAD, STREAM, Stages
from hardware.quantity import fixed, percent, quantity
from hardware.sentence import whole
from hwexplorer.views.captions import MARKED

Part = tuple[str, str]  # text, role of the palette
Line = list[Part]
LEAST = (36, 15)  # columns and lines of a drawing
_GAP, _ROOMY = 2, 48  # columns between drawings; columns in which a drawing has room for long bars
_GLYPHS = {START: "/", LOAD: ":", FILL: "▒", STREAM: "█", DRAIN: "▓", HIDDEN: "."}
_TODO, _RUNNING, _DONE = (".", "dim"), ("▒", "warn"), ("█", "bar")
_MOVING = ("█", "accent")  # a diagonal of values on their way through the cells
_STREAMS = {"results": ("inputs", "weights"), "weights": ("inputs", "sums"), "inputs": ("weights", "sums")}
_STRIPE = 6  # cells between two diagonals that are drawn as moving values
_TICKS = 200  # steps of the diagonals in the time of an operator
LEGEND = "█ done  ▒ running  . idle · phases: " + " ".join(f"{g} {name}" for name, g in list(_GLYPHS.items())[:5])
_LONGER = 1.05  # times its schedule that an operator takes, if it is said
_NAMES = {"instructions and control": "instructions", "static power": "static", "operand delivery": "operands"}


def fit_machines(count: int, width: int, height: int) -> tuple[int, int]:
    """Return the columns and rows in which up to `count` drawings have most room."""
    limit = max((width + _GAP) // (LEAST[0] + _GAP), 1), max(height // LEAST[1], 1)
    shapes = [(columns, -(-count // columns)) for columns in range(1, min(limit[0], count) + 1)]
    fitting = [shape for shape in shapes if shape[1] <= limit[1]]
    return max(fitting, key=lambda s: min(width / s[0] / LEAST[0], height / s[1] / LEAST[1]), default=limit)


def draw_machines(
    machines: Sequence[tuple[WavefrontMachine, WavefrontState]], width: int, height: int, columns: int
) -> list[Line]:
    """Return machines beside and below each other, in `columns`."""
    lines: list[Line] = []
    rows = -(-len(machines) // columns) or 1
    cells = (width + _GAP) // columns - _GAP
    for start in range(0, len(machines), columns):
        drawings = [draw_machine(*pair, cells, height // rows) for pair in machines[start : start + columns]]
        for parts in zip(*drawings, strict=True):
            line: Line = []
            for part in parts:
                length = sum(len(text) for text, _ in part)
                line += [*part, (" " * (cells - length + _GAP), "text")]
            lines.append(line)
    return lines


def draw_machine(machine: WavefrontMachine, state: WavefrontState, width: int, height: int) -> list[Line]:
    """Return the drawing in exactly `height` lines of at most `width` columns."""
    stages = machine.stages
    lines = [[(MARKED[machine.device][:width], "title")], [(_fit(_schedule(machine, state), width), "text")]]
    lines += [[(_fit(_moment(machine, state), width), "strong")], _phase_bar(machine, state, width)]
    lines += [_marker(state, width), *_energy(machine, state, width)]
    rows = max(height - len(lines) - 3, 1)
    index_width = max(width * 2 // 5, 12) if stages.cells[0] else width // 2
    room = width - index_width - _GAP
    index = _index_space(stages, state, index_width, rows)
    head, units = _array(stages, state, room, rows) if stages.cells[0] else _units(machine, state, room, rows)
    lines.append([(_index_head(stages, index_width).ljust(index_width + _GAP), "dim"), (head, "dim")])
    lines += [[*a, (" " * _GAP, "text"), *b] for a, b in zip(index, units, strict=True)]
    lines += [[(_fit(parts, width), "dim")] for parts in (_busy(machine, state), _moves(machine))]
    return lines[:height]


def _fit(parts: Sequence[str], width: int) -> str:
    """Join as many leading parts as fit; the first is cut if it alone does not."""
    count = next((n for n in range(len(parts), 1, -1) if len(" · ".join(parts[:n])) <= width), 1)
    return " · ".join(parts[:count])[:width]


def _schedule(machine: WavefrontMachine, state: WavefrontState) -> tuple[str, ...]:
    stages = machine.stages
    if machine.hidden_in:
        return (f"inside {machine.hidden_in}", "no time of its own")
    sizes = [whole(size) for size in stages.block if size > 1.0] or ["1"]
    noun = "blocks of" if len(sizes) > 1 else "blocks, elements:"
    keeps = (f"{stages.keeps} stay",) if stages.keeps else ()
    runs = (f"run {whole(state.run)} of {whole(machine.runs)}",) if machine.runs > 1.0 else ()
    return f"{whole(math.prod(stages.blocks))} {noun} {' x '.join(sizes)}", *runs, *keeps


def _moment(machine: WavefrontMachine, state: WavefrontState) -> tuple[str, ...]:
    rounds = machine.stages.rounds
    turn = f" {whole(state.round)}/{whole(rounds)}" if rounds > 1 and state.phase in machine.stages.repeated else ""
    name = "done" if state.moment >= 1.0 else state.phase + turn
    return name, f"cycle {whole(state.cycle)} of {whole(machine.cycles)}", quantity(state.seconds, "s")


def _phase_bar(machine: WavefrontMachine, state: WavefrontState, width: int) -> Line:
    """Return the phases in the order of time, a cell at least for each; some rounds stand for all. What has passed has
    another colour."""
    shares = {phase.name: phase.seconds / (machine.latency_s or 1.0) for phase in machine.phases}
    in_turn = {name: share for name, share in shares.items() if name in machine.stages.repeated}
    single = {name: max(round(share * width), 1) for name, share in shares.items() if name not in in_turn}
    room = max(width - sum(single.values()), 1)
    turns = max(min(machine.stages.rounds, room // 8), 1) if len(in_turn) > 1 else 1
    total, rounds = sum(in_turn.values()) or 1.0, ""
    for turn in range(turns if in_turn else 0):
        length = (turn + 1) * room // turns - turn * room // turns
        cells = {name: max(round(share / total * length), 1) for name, share in in_turn.items()}
        cells[STREAM] = cells.get(STREAM, 0) + length - sum(cells.values())
        rounds += "".join(_GLYPHS[name] * count for name, count in cells.items())
    bar = "".join(_GLYPHS[name] * count for name, count in single.items() if name != DRAIN)
    cells_of_time = (bar + rounds + _GLYPHS[DRAIN] * single.get(DRAIN, 0))[:width]
    passed = round(state.moment * len(cells_of_time))
    return [(cells_of_time[:passed], "accent"), (cells_of_time[passed:], "dim")]


def _marker(state: WavefrontState, width: int) -> Line:
    place, text = min(int(state.moment * width), width - 1), percent(state.moment)
    is_left = place > width - len(text) - 3
    return [(f"{text} ^".rjust(place + 1) if is_left else f"{'^'.rjust(place + 1)} {text}", "accent")]


def _energy(machine: WavefrontMachine, state: WavefrontState, width: int) -> list[Line]:
    """Return a bar of the joules per cycle, against the phase with most, and the families that take them."""
    peak_j, cells = max(phase.joules_per_cycle for phase in machine.phases), 10 if width >= _ROOMY else 5
    level = round(cells * state.joules_per_cycle / peak_j) if peak_j else 0
    now = f"{quantity(state.joules_per_cycle, 'J')}/cycle"
    number, unit = quantity(machine.energy_j, "J").split(" ")
    part = state.energy_j / machine.energy_j if machine.energy_j else 0.0
    so_far = fixed(part * float(number.replace(",", "")), len(number.partition(".")[2]))
    total = f"{so_far} of {number} {unit}"
    phase = next(phase for phase in machine.phases if phase.name == state.phase)
    parts = sorted(phase.energy_by_family_j.items(), key=lambda pair: -pair[1])[:4]
    shares = [(name, joules / phase.energy_j if phase.energy_j else 0.0) for name, joules in parts]
    families = [f"{_NAMES.get(name, name)} {percent(share)}" for name, share in shares if share >= 0.005]
    level_bar = [("█" * level, "accent"), ("." * (cells - level) + " ", "dim")]
    return [[*level_bar, (_fit((now, total), width - cells - 1), "text")], [(_fit(families or [""], width), "text")]]


def _index_head(stages: Stages, width: int) -> str:
    m, n, k = stages.blocks
    sizes = f"{whole(m)} x {whole(n)}" + (f" x {whole(k)}" if k > 1 else "") if n * k > 1 else whole(m)
    return sizes + " blocks" * (len(sizes) + len(" blocks") <= width)


def _index_space(stages: Stages, state: WavefrontState, width: int, height: int) -> list[Line]:
    """Return the blocks of M x N, row by row; the order of blocks is that of the drawing. A block counts as done if all
    its groups and parts of K are."""
    along_m, along_n, layers = stages.blocks
    finished, begun = state.blocks_done, state.blocks_done + state.blocks_running

    def cell(x: int, y: int) -> Part:
        """Return the glyph of the blocks at a place: several rows share one if there are many."""
        column = min(int((x + 0.5) * along_n / width), along_n - 1)
        begin, end = (y + x / width, y + (x + 1) / width) if along_n == 1 and along_m > height else (y, y + 1)
        row = int(begin * along_m / height)
        last_row = max(math.ceil(end * along_m / height - 1e-9) - 1, row)
        if (last_row * along_n + column + 1) * layers <= finished:
            return _DONE
        return _RUNNING if (row * along_n + column) * layers < begun else _TODO

    return _grid(width, height, cell)


def _units(machine: WavefrontMachine, state: WavefrontState, width: int, height: int) -> tuple[str, list[Line]]:
    """Return the units, busy or idle, each as wide as there is room. Units without room share a place."""
    count = machine.units
    per_row = min(max(math.ceil(math.sqrt(count)), math.ceil(count / height)), width)
    wide, lines_per_row = width // per_row, max(math.ceil(math.ceil(count / per_row) / height), 1)

    def cell(x: int, y: int) -> Part:
        """Return the glyph of the unit at a place."""
        number = y * lines_per_row * per_row + x // wide
        if x // wide >= per_row or number >= count or (wide > 1 and x % wide == wide - 1):
            return (" ", "text")
        return _RUNNING if number < state.blocks_running else _TODO

    return f"{whole(count)} {machine.unit}s", _grid(width, height, cell)


def _busy(machine: WavefrontMachine, state: WavefrontState) -> tuple[str, ...]:
    k, busy = machine.stages.block[2], f"{whole(state.blocks_running)} of {whole(machine.units)} {machine.unit}s busy"
    is_shown = k > 1.0 and not machine.stages.cells[0] and state.phase == STREAM and state.blocks_running
    return (busy, f"K {whole(math.floor(state.round_done * k))} of {whole(k)}") if is_shown else (busy,)


def _array(stages: Stages, state: WavefrontState, width: int, height: int) -> tuple[str, list[Line]]:
    """Return the cells of one unit: the wavefront fills it from the corner where values enter, then drains. Cells
    beyond the edge of a block stay idle; values move along the diagonals."""
    rows, columns = stages.cells
    m, n, k = stages.block
    used_m, used_n = {"results": (m, n), "weights": (k, n), "inputs": (k, m)}[stages.keeps]
    high, wide = min(used_m / rows, 1.0), min(used_n / columns, 1.0)
    across, down = _STREAMS[stages.keeps]
    tick = math.floor(state.moment * _TICKS)

    def cell(x: int, y: int) -> Part:
        """Return the glyph of the cells at a place."""
        place_x, place_y = (x + 0.5) / (width - 2), (y + 0.5) / height
        if place_x > max(wide, 1.0 / (width - 2)) or place_y > max(high, 1.0 / height):
            return _TODO
        depth = (place_x / wide + place_y / high) / 2.0
        is_on = {FILL: depth <= state.active, STREAM: True, DRAIN: depth >= 1.0 - state.active}.get(state.phase, False)
        if not is_on:
            return _TODO
        return _MOVING if (x + y - tick) % _STRIPE == 0 else _RUNNING

    lines = _grid(width - 2, height, cell)
    for y, line in enumerate(lines):
        enters = ">" if state.phase in (FILL, STREAM) and (y - tick) % _STRIPE == 0 and y + 0.5 < high * height else " "
        line.insert(0, (f"{enters} ", "accent"))
    return _fit((f"{stages.keeps} stay", f"{across} > v {down}", f"{rows} x {columns} cells"), width), lines


def _moves(machine: WavefrontMachine) -> tuple[str, ...]:
    cycles = sum(phase.cycles for phase in machine.phases if phase.name != START) or 1.0
    levels = (("DRAM", machine.dram_bytes), ("chip", machine.on_chip_bytes))
    rates = ", ".join(f"{name} {quantity(size / cycles, 'byte')}" for name, size in levels)
    schedule = sum(machine.stages.cycles.values())
    stretch = cycles / schedule / machine.runs if schedule and not machine.hidden_in else 1.0
    waits = (f"{stretch:.2g}x its schedule",) if stretch > _LONGER else ()
    return f"{rates} per cycle", f"bound by {machine.bound}", *waits


def _grid(width: int, height: int, cell: Callable[[int, int], Part]) -> list[Line]:
    """Return the cells (x, y) in lines of as few parts as there are roles in turn."""
    lines: list[Line] = [[] for _ in range(height)]
    for y, line in enumerate(lines):
        for x in range(width):
            text, role = cell(x, y)
            if line and line[-1][1] == role:
                line[-1] = (line[-1][0] + text, role)
            else:
                line.append((text, role))
    return lines
