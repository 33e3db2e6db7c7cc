"""Show an operator as it runs on several machines: phases, cycles, energy, and what moves at a moment."""

from analysis.document import Column, columns
from analysis.explore import wavefront_phases
from hardware.base.errors import RequestError
from hardware.base.text import percent
from hwexplorer import declare, engine, options
from hwexplorer.state import State
from hwexplorer.views import plain
from hwexplorer.views.wavefront_drawing import LEGEND, draw_machines

WIDTH, HEIGHT = 74, 16  # columns that a result has on a screen of 80, and lines of a machine; two stand side by side


def document(state: State, moment: float) -> wavefront_phases.Wavefront:
    """Return the operator of the state's node on its devices."""
    if not 0.0 <= moment <= 1.0:
        raise RequestError(f"{moment:g} is no part of the time: expected 0 to 1, e.g. 0.3")
    return wavefront_phases.make_wavefront([engine.result(state, name) for name in state.devices], state.at, moment)


def _drawings(answer: wavefront_phases.Wavefront, state: State) -> plain.Text:
    pairs = list(zip(answer.machines, answer.states, strict=True))
    drawings = draw_machines(pairs, WIDTH, HEIGHT * -(-len(pairs) // 2))
    lines = tuple("".join(text for text, _ in line).rstrip() for line in drawings)
    return plain.Text("machines", "Devices", (("", (*lines, LEGEND)),), is_drawing=True)


def _chain(chain: wavefront_phases.ChainedOperators) -> str:
    """Say what two products take as a stream, or why they cannot."""
    device, names = engine.marked_key(chain.device), f"{chain.operator} and {chain.following}"
    if chain.chain is None or chain.why:
        return f"{device}: {names} do not stream into each other: {chain.why}"
    cycles = chain.chain
    saved = percent(1.0 - cycles.streamed_cycles / cycles.in_turn_cycles)
    return (
        f"{device}: {names} as one stream take {cycles.streamed_cycles:,.0f} cycles, {saved} less than the "
        f"{cycles.in_turn_cycles:,.0f} of one after the other: {cycles.tiles:,} of {chain.units:,} tiles hold their "
        f"weights, a row enters each {cycles.beat:.3g} cycles, results from cycle {cycles.first_result_cycle:,.0f} on"
    )


_PHASES = (
    *columns(wavefront_phases.WavefrontPhase, device={"shown": engine.marked_key}),
    Column("per_cycle", "Per cycle", "J", role="quantity", of="joules_per_cycle"),
)

VERB = declare.Report(
    subject=declare.Subject(options=(*declare.DEVICES.options, options.NODE), several=True),
    options=(
        options.option("--at", dest="moment", type=options.amount("fraction"), default=0.5, metavar="PART",
                       help="part of each device's time, 0 to 1 (default 0.5)"),
    ),
    document=document,
    title=lambda answer, state: f"{answer.node} of {answer.model}, devices at {percent(answer.moment)} of their time",
    parts=(
        _drawings,
        declare.summary_text(lambda answer, state: map(_chain, answer.chains), "chains", "With what follows"),
        declare.Rows("phases", "Phases", _PHASES, key=lambda phase: f"{phase.device}.{phase.name}",
                     of=lambda answer: [phase for machine in answer.machines for phase in machine.phases]),
    ),
    brief_parts=("machines", "chains"),
    examples={"wavefront": "conv2d --on tpu_v4,kpu_t256 --at 0.3"},
)  # fmt: skip
