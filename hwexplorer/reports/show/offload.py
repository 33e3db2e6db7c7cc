"""Show how a language model runs that keeps layers or experts in the memory of the host or of a second device."""

from collections.abc import Iterator

import msgspec

from analysis.document import columns
from analysis.explore import divided_run
from analysis.serving.request_load import ask_load
from hardware.base.errors import RequestError
from hardware.base.text import percent, quantity
from hardware.engines.runtime import runtimes
from hwexplorer import declare, engine
from hwexplorer.options import option, whole
from hwexplorer.settings import SETTINGS
from hwexplorer.state import State
from hwexplorer.views.captions import place_in_words

_HOST = "ryzen9_9950x"  # a desktop with two channels of DDR5
_ENGINE = "llama_cpp"
WAYS = columns(divided_run.OffloadWay)


def _document(
    state: State, host: str | None, ngl: int | None = None, n_cpu_moe: int | None = None
) -> divided_run.OffloadReport:
    cpu = engine.device(host or _HOST)
    if not (cpu.arch.is_host or cpu.arch is engine.device(state.on).arch):
        raise RequestError(
            f"{cpu.name} is no CPU: --host names the CPU whose memory helps, as {_HOST}, or a second GPU"
        )
    request = _one_request(state)
    report = divided_run.find_offload(engine.result(request), engine.result(request, cpu.key), ngl, n_cpu_moe)
    if not state.load:
        return report
    load = ask_load(engine.load_of(state)[0]).load
    return msgspec.structs.replace(report, load=state.load, arrivals_per_s=load.arrivals_per_s)


def _one_request(state: State) -> State:
    """Return the state of one request of a load, with llama.cpp as the usual runtime."""
    is_usual = state.execution == SETTINGS["execution"].default
    state = msgspec.structs.replace(state, execution=_ENGINE) if is_usual else state
    if not state.load:
        return state
    request = engine.load_of(state)[0]
    return msgspec.structs.replace(state, model=request.spell("request", *request.lengths), load="")


def _summary(report: divided_run.OffloadReport, state: State) -> Iterator[str]:
    best, asked = report.ways[0], report.ways[-1]
    device, host = engine.device(state.on), engine.device(report.host)
    room = f"{device.name} with {quantity(report.device_bytes, 'byte')}"
    if asked.way.startswith(divided_run.GIVEN):
        rate, held = quantity(asked.tokens_per_s, "SI"), quantity(asked.device_bytes, "byte")
        yield f"{asked.option}: {'' if asked.fits else 'does not fit: '}{rate} tokens/s, {held} on the device"
    if not best.fits:
        yield f"no way fits into {room} and {quantity(report.host_bytes, 'byte')} of {host.name}"
        return
    what = f"{best.way}, {best.layers} of {report.layers} layers" if best.layers else best.way
    yield (
        f"fastest on {room}: {what}: {quantity(best.tokens_per_s, 'SI')} tokens/s, "
        f"{quantity(best.energy_j_per_token, 'J')} per token"
    )
    if report.load:
        load = f"under {report.load}: one request after another, {quantity(best.latency_s, 's')} each"
        share = report.arrivals_per_s * best.latency_s
        behind = f"falls behind, {share:.3g} times as many arrive"
        yield f"{load}: {behind if share >= 1.0 else f'keeps up, {percent(share)} busy'}" if share else load
    if not runtimes()[_ENGINE].fits(device, "language"):
        yield f"no software is known to divide a model between {device.name} and a host: both would take this"
    kind = "host" if host.arch.is_host else "second device"
    yield f"{kind} {host.name}, {quantity(host.memory_bandwidth, 'byte/s')}; --host names another one"


VERB = declare.Report(
    subject=declare.DEVICE,
    options=(
        option("--host", metavar="DEV", help=f"the CPU or the second GPU whose memory helps (default {_HOST})"),
        option(
            "--ngl", type=whole(0, 1000), metavar="N", help="a given split: layers on the device, as -ngl of llama.cpp"
        ),
        option(
            "--n-cpu-moe", type=whole(0, 1000), metavar="N", help="a given split: layers whose experts are on the host"
        ),
    ),
    document=_document,
    title=lambda report, state: f"Offload of {place_in_words(_one_request(state))}",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("ways", "Ways to run it", WAYS, key="way", dim=lambda way: not way.fits),
    ),
    examples={"offload": "qwen3_30b_a3b:decode --precision q4_k_m --on rtx_2080"},
)
