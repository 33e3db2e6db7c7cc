"""The design study of the KPU against an H100 (docs/kpu_study.md): `python -m hwexplorer.study` writes it.

Every figure is what `compare`, `elasticity`, `crossover` and `design` say; nothing is typed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analysis.estimate.estimate import Estimate
from analysis.explore.crossover import Crossover, Goal, Way
from analysis.explore.design import Design, Designs
from analysis.explore.elasticity import Elasticities
from hardware.area import area
from hardware.execute import BOUNDS
from hardware.quantity import of_fact, quantity
from hwexplorer import engine
from hwexplorer.registry import Answer
from hwexplorer.state import State, format
from hwexplorer.views.words import band

FILE = Path("docs/kpu_study.md")
KPU, GPU = "kpu_t256", "h100_sxm"
MODELS = {"resnet50": "ResNet-50", "vit_b_16": "ViT-B/16", "llama3_8b:decode": "Llama 3 8B, a token at 2,048"}
BATCHES = (1, 16)
ALONE = ("power_limit_w", "units", "memory_bandwidth")
# What one chip for all models is looked for among.
GRID = ("units=256|512|1024|2048", "memory_bandwidth=256G|512G|1T|2T|3T", "power_limit_w=30|60|120|240|350")

HEAD = """# What would make the KPU-T256 beat an H100?

Written by `python -m hwexplorer.study` from what the engine says; a test holds it to that. **The KPU-T256 exists on
paper only: nothing of it was ever measured.** Its figures are those of its design ({units} tiles at {clock},
{bandwidth} of LPDDR5, {limit} sustained, {node:g} nm), its energies those of silicon of its node and not its
designer's. The H100 SXM5 runs what one would deploy on it, and its bands are those of measurements left out of the fit.
All in bf16, energy of the device without its host; batch 1 is one user who waits, batch 16 a server. *Odds* are those
that the KPU would be measured to be quicker, or to take less energy, bands and all.
"""

Row = tuple[str, ...]


def state(model: str, batch: int, device: str = KPU) -> State:
    return State(model=model, batch=batch, precision="bf16", devices=(device, GPU), on=device, baseline=GPU)


def cases() -> dict[str, State]:
    return {f"{title}, batch {batch}": state(model, batch) for model, title in MODELS.items() for batch in BATCHES}


def _table(*rows: Row) -> str:
    head, *rest = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *rest)) + "\n"


def _with_band(result: Estimate, metric: str) -> str:
    if metric == "latency":
        return f"{quantity(result.latency_s, 's')} ({band(result.latency_band_s, result.latency_s)})"
    return f"{quantity(result.energy_j_per_inference, 'J')} ({band(result.energy_band_j, result.energy_j)})"


def _times(ratio: float, more: str, less: str) -> str:
    if abs(ratio - 1.0) < 0.005:
        return "the same"
    return f"{max(ratio, 1 / ratio):.2g}x {more if ratio > 1 else less}"


def _odds(goal: Goal) -> str:
    odds = goal.odds or 0.0
    return "<1%" if odds < 0.005 else ">99%" if odds > 0.995 else f"{odds:.0%}"


def _bounds(result: Estimate) -> list[tuple[float, str]]:
    """The share of the time by what bounds it, the largest first."""
    whole = sum(result.bound_s)
    return sorted(((each / whole, name) for each, name in zip(result.bound_s, BOUNDS, strict=True)), reverse=True)


def _in_short(found: dict[str, tuple[State, Crossover]]) -> Iterator[str]:
    yield "## In short\n"
    for title, (here, crossover) in found.items():
        share, name = _bounds(engine.result(here))[0]
        way, (slower, less) = crossover.ways[0], crossover.goals
        yield (
            f"- **{title}**: {_times(slower.ratio, 'longer', 'shorter')} than the H100, "
            f"{_times(less.ratio, 'more', 'less')} energy; limited by {name} ({share:.0%} of the time). "
            + (f"As quick with {_turns(way)}, then {_told(way)}." if way.device else "No change of these matches it.")
        )
    yield ""


def _told(way: Way) -> str:
    latency, energy = way.goals
    return (
        f"{_times(energy.ratio, 'more', 'less')} energy (odds: quicker {_odds(latency)}, less energy {_odds(energy)})"
    )


def _as_it_is(found: dict[str, tuple[State, Crossover]]) -> Iterator[str]:
    yield "## As it is\n"
    rows: list[Row] = [
        ("", "KPU-T256 (paper)", "H100", "Latency of the KPU", "Odds", "Energy per inference of the KPU", "Odds")
    ]
    for title, (here, crossover) in found.items():
        kpu, gpu = engine.result(here), engine.result(here, GPU)
        latency, energy = crossover.goals
        both = ("; ".join(_with_band(each, metric) for metric in crossover.metrics) for each in (kpu, gpu))
        told = (_times(latency.ratio, "longer", "shorter"), _odds(latency))
        rows.append((title, *both, *told, _times(energy.ratio, "more", "less"), _odds(energy)))
    yield _table(*rows)


def _limits(found: dict[str, tuple[State, Crossover]]) -> Iterator[str]:
    yield "## What limits it\n"
    yield (
        "Time by what bounds it, and what a per cent more of a fact or price does to latency and energy per inference, "
        "in per cent (`elasticity`).\n"
    )
    rows: list[Row] = [("", "Time", "Power", "Latency moves with", "Energy moves with")]
    waits = []
    for title, (here, _) in found.items():
        result = engine.result(here)
        document: Elasticities = Answer("elasticity", here).document
        time = ", ".join(f"{name} {share:.0%}" for share, name in _bounds(result) if share >= 0.05)
        power = f"{result.average_power_w:.0f} W of {result.device.power_limit_w:.0f}"
        moves = []
        for metric in ("latency", "energy"):
            # The power limit is told once: that of the chip and its TDP are turned together.
            each = sorted(document.elasticities, key=lambda row: -abs(getattr(row, metric)))
            few = [row for row in each if row.name != "tdp_w" and abs(getattr(row, metric)) >= 0.005][:4]
            moves.append(", ".join(f"{row.name} {getattr(row, metric):+.2f}" for row in few))
        rows.append((title, time, power, *moves))
        told = (row for row in document.elasticities if row.name in ALONE and " until " in row.says)
        waits += [f"- {title}: {row.name} {row.says}." for row in told]
    yield _table(*rows)
    if waits:
        yield "\n".join(waits) + "\n"


def _turns(way: Way) -> str:
    told = [
        f"{turn.knob} x {turn.factor:.2f} ({of_fact(turn.value or 0.0, turn.unit)})"
        for turn in way.turns
        if turn.factor != 1.0
    ]
    return ", ".join(told) or "none"


def _change(found: dict[str, tuple[State, Crossover]]) -> Iterator[str]:
    yield "## The least change\n"
    yield (
        "With which the KPU is as quick as the H100 and takes no more energy (`crossover --metric latency,energy`): "
        f"the least of {', '.join(ALONE)}, alone and together, in the sum of the squared logarithms of their "
        "factors. Die by rule, of what computes and remembers. A chip that is just as quick has odds near a half.\n"
    )
    rows: list[Row] = [
        ("", "The change", "Latency", "Odds", "Energy per inference", "Odds", "Die", "Alone it would take")
    ]
    opened = []
    for title, (here, crossover) in found.items():
        way = crossover.ways[0]
        alone = {each.knobs[0]: each for each in crossover.ways if len(each.knobs) == 1}
        single = "; ".join(_turns(alone[knob]) if alone[knob].device else f"{knob}: never" for knob in ALONE)
        if not way.device:
            rows.append((title, "none within 64 times", "", "", "", "", "", single))
            continue
        latency, energy = way.goals
        die = area(engine.device(way.device))
        rows.append(
            (title, _turns(way), _times(latency.ratio, "longer", "shorter"), _odds(latency),
             _times(energy.ratio, "more", "less"), _odds(energy), f"{die.total_mm2:.0f} mm2", single)
        )  # fmt: skip
        opened.append(f"    hwexplorer '{format(state(here.model, here.batch, way.device))}'")
    yield _table(*rows)
    base = area(engine.device(KPU))
    yield f"The KPU-T256 as it is has {base.total_mm2:.0f} mm2 by the same rule. Each chip on screen:\n"
    yield "\n".join(opened) + "\n"


def _one_chip() -> Iterator[str]:
    """The smallest change of a grid that holds for all models at the larger batch."""
    batch = BATCHES[-1]
    asked = {"workload": tuple(MODELS), "base": KPU, "knobs": GRID, "measure": "energy", "top": 1000}
    document: Designs = Answer("design", state(next(iter(MODELS)), batch), **asked).document
    targets = [engine.result(state(model, batch), GPU) for model in MODELS]
    enough = [design for design in document.best if _is_enough(design, targets)]
    yield "## One chip for all three\n"
    yield f"Of {document.evaluated} designs (`design --base {KPU} --knobs {','.join(GRID)}`, batch {batch}):"
    if not enough:
        yield "none is as quick as the H100 on each and takes no more energy.\n"
        return
    least = min(enough, key=lambda design: design.area_mm2)
    share = max(cost.energy_j / b.energy_j_per_inference for cost, b in zip(least.costs, targets, strict=True))
    size = area(engine.device(GPU)).total_mm2
    yield (
        f"{len(enough)} are as quick as the H100 on each of the three and take no more energy. The smallest one has "
        f"{least.area_mm2:.0f} mm2 of silicon (the H100 {size:.0f} by that rule): `{least.device}`. It draws up to "
        f"{least.power_w:.0f} W and takes at most {share:.0%} of the H100's energy per inference.\n"
    )


def _is_enough(design: Design, targets: list[Estimate]) -> bool:
    return all(
        cost.latency_s <= b.latency_s and cost.energy_j <= b.energy_j_per_inference
        for cost, b in zip(design.costs, targets, strict=True)
    )


def text(told: Mapping[str, State]) -> str:
    """Of these cases."""
    facts = engine.device(KPU).facts
    head = HEAD.format(
        units=f"{facts['units'].value:g}",
        clock=of_fact(facts["clock_hz"].value, "Hz"),
        bandwidth=of_fact(facts["memory_bandwidth"].value, "byte/s"),
        limit=of_fact(facts["power_limit_w"].value, "W"),
        node=facts["process_nm"].value,
    )
    sets = [*((knob,) for knob in ALONE), ALONE]
    found = {
        title: (here, Answer("crossover", here, knob=sets, measures=("latency", "energy")).document)
        for title, here in told.items()
    }
    return "\n".join([head, *_in_short(found), *_as_it_is(found), *_limits(found), *_change(found), *_one_chip()])


if __name__ == "__main__":
    FILE.write_text(text(cases()), encoding="utf-8")
