"""Show how a language model runs that keeps layers or experts in the memory of the host."""

from __future__ import annotations

import msgspec

from analysis.document import columns
from analysis.explore.host_memory import OffloadReport, OffloadWay, find_offload
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, Rows, summary_text
from hwexplorer.options import option
from hwexplorer.settings import SETTINGS
from hwexplorer.state import State
from hwexplorer.views.captions import place_in_words

_HOST = "ryzen9_9950x"  # a desktop with two channels of DDR5
_ENGINE = "llama_cpp"


def _document(state: State, host: str | None) -> OffloadReport:
    state, cpu = _with_runtime(state), engine.device(host or _HOST)
    if not cpu.arch.is_host:
        raise RequestError(f"{cpu.name} is no CPU: --host names the CPU whose memory helps, as {_HOST}")
    return find_offload(engine.result(state), engine.result(state, cpu.key))


def _with_runtime(state: State) -> State:
    is_usual = state.execution == SETTINGS["execution"].default
    return msgspec.structs.replace(state, execution=_ENGINE) if is_usual else state


def _title(report: OffloadReport, state: State) -> str:
    return f"Offload of {place_in_words(_with_runtime(state))}"


def _summary(report: OffloadReport, state: State) -> tuple[str, ...]:
    best = report.ways[0]
    device, host = engine.device(state.on), engine.device(report.host)
    room = f"{device.name} with {quantity(report.device_bytes, 'byte')}"
    if not best.fits:
        return (f"no way fits into {room} and {quantity(report.host_bytes, 'byte')} of {host.name}",)
    what = f"{best.way}, {best.layers} of {report.layers} layers" if best.layers else best.way
    return (
        f"fastest on {room}: {what}: {quantity(best.tokens_per_s, 'SI')} tokens/s, "
        f"{quantity(best.energy_j_per_token, 'J')} per token",
        f"host {host.name}, {quantity(host.memory_bandwidth, 'byte/s')}; --host names another one",
    )


VERB = Report(
    subject=DEVICE,
    options=(option("--host", metavar="DEV", help=f"the CPU whose memory helps (default {_HOST})"),),
    document=_document,
    title=_title,
    parts=(
        summary_text(_summary),
        Rows("ways", "Ways to run it", columns(OffloadWay), key="way", dim=lambda way: not way.fits),
    ),
    examples={"offload": "qwen3_30b_a3b:decode --precision q4_k_m --on rtx_2080"},
)
