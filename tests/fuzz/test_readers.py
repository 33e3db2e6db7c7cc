"""Altered input for each reader of what strangers write: it is read with figures that can be, or refused in one line.

`make fuzz` tries a hundred times as many examples as `make test`.
"""

import contextlib
import gzip
import io
import json
import math
import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir import workload as batch_limits
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.reading_budget import Budget
from analysis.model.transformer import weight_headers
from hardware import device as device_file
from hardware import device_catalog, known_architectures
from hardware import precision as precisions
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from hwexplorer import cli, engine, registry, state
from hwexplorer import settings as state_settings
from hwexplorer.answer import Answer
from hwexplorer.tui import user_settings
from hwexplorer.tui.keys import ACTIONS
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.session.saved_sessions import SavedSessions
from hwexplorer_annexes.onnx import onnx_model
from hwexplorer_annexes.traces.trace import make_trace_report
from hwexplorer_annexes.traces.trace_file import read_trace
from hwexplorer_annexes.traces.trace_record import TraceError
from tests.attack import onnx_files, weight_files
from tests.capture import altered
from tests.fuzz import strategies
from tests.fuzz.strategies import examples
from tests.traces import trace_files


@pytest.fixture(autouse=True, scope="module")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Work in an empty folder that is also home, cache and settings."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("HOME", "HWEXPLORER_CACHE_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(folder))
        patch.setattr(file_access, "write", lambda *_, **__: None)
        yield
    engine.reset()


def check_refusal(error: Exception | str) -> None:
    """Assert that the message is one that a person can be shown."""
    assert 0 < len(str(error).strip()) < 2_000


def check_figures(*figures: float) -> None:
    """Assert that figures are numbers and not negative."""
    assert all(math.isfinite(figure) and figure >= 0 for figure in figures), figures


def call(words: list[str]) -> tuple[int, str]:
    """Run a command line. Return its code and standard output; what it says when it fails is one line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(words)
        except SystemExit as ended:  # argparse ends --help this way
            code = int(ended.code or 0)
    said = err.getvalue()
    assert code in (0, 1, 2), code
    assert "internal error" not in said, said[:500]
    assert len(said) < 4_000, said[:200]  # a list of all that is allowed may stand in it
    if code:
        *broken_rule, line = said.splitlines()
        assert line.startswith("hwexplorer: "), said[:500]
        assert len(broken_rule) in (0, 2), said[:500]
        assert all(each.isprintable() for each in (*broken_rule, line)), said[:500]
    if code == 2:
        assert out.getvalue() == "", "refused, yet printed"
    elif "json" in words and out.getvalue().startswith("{"):
        json.loads(out.getvalue(), parse_constant=pytest.fail)
    return code, out.getvalue()


STATES = (
    "resnet50",
    "resnet50@b8,fp16,fused/h100_sxm,jetson_agx_orin:30w?at=layer3.2.conv2&sort=share&pin=tpu_v4@b8,fp16",
    "resnet18@b64,int8,eager,channels_last,i320/xeon_8490h,t4?on=t4&baseline=xeon_8490h&pane=why&plot=batch&zoom=1",
    "llama3_8b:decode,kv=4096@fp16,s2048,kv4096/h100_sxm?find=share%3E5&descending=0&metric=energy",
    "gemm:M=512,N=512,K=512/cpu,gpu?open=a.b,c%2Fd&rank=energy&rank_reverse=1&heat=1",
    "resnet18/h100_sxm@400W,l4@50W@1.4GHz?on=l4@50W@1.4GHz&pin=resnet50/h100_sxm@400W@b8",
    "%2Ftmp%2Fnet.py:make?pin=resnet18/tpu_v4@b8&at=x/~more",
)
STATE_WORDS = (
    *(precisions.NAMES + state_settings.EXECUTIONS + state_settings.LAYOUTS + state.PANES + state.METRICS),
    *(f"&{key}=" for key in ("on", "at", "pin", "open", "find", "fold", "zoom", "baseline", "rank", "heat")),
    *("@b8", "@i0", "@kv0", "@s1", "b4096", "/h100_sxm", "@400W", ",tpu_v4", "?", "~more", "resnet18/t4@b2"),
)


@examples(100)
@given(strategies.texts(STATES, STATE_WORDS))
def test_states(text: str) -> None:
    try:
        read = state.parse(text)
    except RequestError as error:
        check_refusal(error)
        return
    written = state.format(read)
    assert written.isprintable()
    assert state.parse(written) == read
    state.pinned(read)


WHAT_IF = (
    "h100_sxm{memory_bandwidth*2}", "kpu_t256{units=512,clock_hz=1.2e9,scratchpad_bytes=128M,process_nm=7}",
    "tpu_v4{array=256x256}", "kpu_t256{tile.mac:fp32=2.64pJ,tile.operand_stream/2}",
    "jetson_agx_orin:30w{units*2,tdp_w=60,matrix.fp16*0.5}", "xeon_8490h{units*2,l3_bytes=1G,vector*2}",
    "hailo8{array_rows=16,clock_hz*1.5}", "h100_sxm@400W@1.4GHz{units*2}",
)  # fmt: skip
WHAT_IF_WORDS = (
    "{", "}", ",", "*", "/", "=", "1e-300", "0x8", "8x", "units*1,", "process_nm=180", "memory_bytes*1e9", "idle_w*2",
    "power_limit_w/9", "matrix", "launch_s=0", "clock_hz=20G", "units=1", "@300W", "@1400MHz",
)  # fmt: skip


@lru_cache(maxsize=1)
def small_model() -> Workload:
    return store.load("conv2d")


@examples(60)
@given(strategies.texts(WHAT_IF, WHAT_IF_WORDS))
def test_devices_that_are_what_if(text: str) -> None:
    try:
        device = device_catalog.load_device(text)
        assert device_catalog.load_device(device.key) == device
        result = estimate(small_model(), device, Scenario(8, "fp16"))
    except RequestError as error:
        check_refusal(error)
        return
    check_figures(result.latency_s, result.energy_j, *result.latency_band_s, *result.energy_band_j)
    assert result.average_power_w <= device.power_limit_w * (1 + 1e-9)


DEVICES = ("t4", "h100_sxm", "tpu_v4", "kpu_t256", "xeon_8490h", "jetson_agx_orin")
DEVICE_WORDS = (
    *precisions.UNIT_FORMATS, *device_file.QUALITIES, "[runs.fp32]\n", 'convolution = "matrix:tf32"\n', "low = 1",
    "high = 1e24",
    *(f"{event.category}.{event.name}" for each in known_architectures.ALL.values() for event in each.events),
)  # fmt: skip


@examples(40)
@given(strategies.files([(device_file.CATALOG / f"{name}.toml").read_bytes() for name in DEVICES], DEVICE_WORDS))
def test_device_files(data: bytes) -> None:
    stated = re.search(rb'(?m)^id = "(\w{1,40})"', data)  # the file has the name of its device, as a user's has
    path = Path(f"{stated[1].decode() if stated else 'mine'}.toml")
    path.write_bytes(data)
    try:
        spec = device_file.read_device_file(path)
        for mode in ("", *list(spec.power_modes)[:1]):
            device = device_catalog.device_in_mode(spec, mode)
            for precision in precisions.KEYS:
                prices = coefficients(device, make_plan(device, precision))
                assert np.isfinite(prices.value).all()
                assert (prices.low <= prices.value).all()
                assert (prices.value <= prices.high).all()
                result = estimate(small_model(), device, Scenario(8, precision))
                check_figures(result.latency_s, result.energy_j, *result.latency_band_s, *result.energy_band_j)
    except RequestError as error:
        check_refusal(error)


SETTINGS = (
    b'theme = "light"\nascii = true\nmouse = false\nheaviest = false\n[keys]\nheaviest = "."\nquit = "q ctrl+c"\n',
    b'theme = "nord"\n[keys]\nzoom = ", semicolon f5"\nundo = ""\n',
)
SESSIONS = (
    b'{"last": "resnet50@b8,fp16/h100_sxm,t4?at=layer3&pin=t4@b8", "mine": "mlp@b2", "a b": "vit_b_16"}',
    b'{"last": "%2Ftmp%2Fnet.py:make@b4", "x": ""}',
)
SETTING_WORDS = (*(action.id for action in ACTIONS), *THEMES, "theme", "ascii", "[keys]", "true", "ctrl+c", "f5", "'''")


@examples(100)
@given(strategies.files(SETTINGS, SETTING_WORDS))
def test_settings(data: bytes) -> None:
    path = Path("settings")
    path.write_bytes(data)
    read, warning = user_settings.read(path)
    assert warning.isprintable()
    assert len(warning) < 500
    assert read.theme in THEMES
    assert all(isinstance(flag, bool) for flag in (read.ascii, read.mouse, read.heaviest))
    assert read.keymap.by_id["quit"].keys, "no key to leave with"


@examples(100)
@given(strategies.files(SESSIONS, STATES))
def test_sessions(data: bytes) -> None:
    path = Path("sessions")
    path.write_bytes(data)
    kept = SavedSessions(path)
    try:
        names = list(kept.all())
    except RequestError as error:
        check_refusal(error)
        with pytest.raises(RequestError):
            kept.save("new", state.State())
        assert path.read_bytes() == data, "written over what could not be read"
        return
    for name in names:
        with contextlib.suppress(RequestError):
            kept.state(name)


COMMANDS = tuple(
    tuple(shlex.split(line))
    for line in (
        "mlp@b8,fp16/t4", "conv2d --ascii --theme light", "--help", "--version", "compare --help",
        "compare mlp --on cpu,gpu --batch 8 --precision fp16 --level detailed --baseline cpu",
        "compare conv2d@b4/t4,tpu_v4 --format json --execution fused --layout channels_last",
        "tree resnet_block --on t4 --format json", "show events conv2d --on kpu --node conv -o out.csv",
        "why gemm:M=64,N=64,K=64 --on kpu_t256:50w --format md", "why conv2d cpu gpu --metric energy",
        "show plot mlp --plot batch --on t4 --format csv", "show memory depthwise_separable --on t4 -o out.json",
        "tree edp transformer_block --on t4", "sweep mlp --batches 1,8 --precisions fp32,int8 --on t4",
        "search mlp --max-energy 100mJ --max-latency 5ms --min-throughput 1k/s --on t4 --sort energy",
        'advise mlp --on t4 --aim latency', 'check mlp --rule "energy(t4) < 500mJ" --on t4',
        "report mlp --on t4 -o out.html", "models --format json", "devices --format csv", "devices jetson_agx_orin:30w",
        "capture net.py:make --input 1x3x8x8 --run-code --time-limit 5s --memory-limit 2GiB",
    )
)  # fmt: skip
COMMAND_WORDS = (
    *registry.names(),
    *("mlp", "conv2d", "gemm:M=1,N=1,K=1", "layer_norm:B=2", "mlp@b2", "net.py:make", "net.onnx", "x.pt2", "hf:."),
    *("cpu", "gpu", "t4", "t4:70w", "h100_sxm", "tpu_v4,t4", "T4", "nvidia t4", *state_settings.EXECUTIONS),
    *("--on", "--batch", "--precision", "--format", "-o", "--node", "--image-size", "--kv", "--sequence", "--input"),
    *("--rule", "--sort", "--level", "--metric", "--batches", "--strict", "--run-code", "--devices-dir", "--baseline"),
    *("json", "csv", "md", "html", "text", "out.json", "0", "1x3x8x8", "5ms", "2GiB", "1e999", "50%", "--", "-", "-h"),
    *("latency(t4) < 1s and energy(cpu) > 0", "edp", "not", "(((", "fits(t4)", "1 < 2", *state.METRICS),
)  # fmt: skip


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Draw a command line of which one to three words are altered, others, or gone; as bytes that a shell can pass."""
    words = list(draw(st.sampled_from(COMMANDS)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words)))
        old = words[at : at + 1]
        words[at : at + 1] = draw(
            st.sampled_from(COMMAND_WORDS).map(lambda word: [word])
            | st.sampled_from(COMMAND_WORDS).map(lambda word, old=old: [*old, word])
            | st.just([])
            | strategies.texts(old or [""], COMMAND_WORDS).map(lambda word: [word])
        )
    return [word.replace("\0", "").encode("utf-8", "replace").decode() for word in words]


@examples(30)
@given(command_lines())
def test_command_lines(words: list[str]) -> None:
    assume(not {"--all", "--workers", "--cluster", "capture", "validate", "calibrate", "tune"} & set(words))
    call(words)


@lru_cache(maxsize=1)
def results() -> list[bytes]:
    asked = state.State(model="mlp", devices=("t4",), on="t4", baseline="t4")
    return [Answer(verb, asked).to_text("json").encode() for verb in ("compare", "tree", "report")]


RESULT_WORDS = ("energy_j", "children", "rows", "tree", "compare", "-1", "1e999", '""', "[]", "NaN", "\\ud800")


@examples(30)
@given(st.deferred(lambda: strategies.files(results(), RESULT_WORDS)))
def test_results_of_before(data: bytes) -> None:
    Path("base.json").write_bytes(data)
    words = ["why", "base.json", "mlp", "--on", "t4", "--rule", "change(energy) < 5%", "--format", "json"]
    call(words)


REQUESTS = (
    b"arrival_s,prompt_tokens,output_tokens\n0,100,10\n0.5,200,20\n0.5,1,1\n",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50,396,109\n",
    b'{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n' * 3,
)


@examples(40)
@given(strategies.files(REQUESTS, ("arrival_s", "prompt_tokens", "output_tokens", "10000000", ",,", "\r\n")))
def test_requests(data: bytes) -> None:
    Path("requests.csv").write_bytes(data)
    call(["show", "load", "gpt2:serve,requests=requests.csv", "--on", "l4", "--format", "json"])


HEAD = b"source,device,device_mode,framework,model,image_size,batch,precision,scenario,latency_ms,throughput_per_s,"
ROWS = (
    HEAD + b"energy_mJ_per_inference,note\nme,h100_sxm,,pytorch eager,resnet18,,8,fp16,,1.5,,30,\n"
    b"me,t4,,TensorRT 8,resnet18,224,1,int8,,,900,,\n",
    HEAD + b"energy_mJ_per_inference,note\nMLPerf,h100_sxm x8,,TensorRT,resnet18,,,int8,Offline,,80000,,x\n",
)
ROW_WORDS = ("device", "model", "latency_ms", "note", "gemm:M=9,N=9,K=9", "/dev/zero", "hf:.", "t4 x99", "cpu", "int4")


@examples(20)
@given(strategies.files(ROWS, ROW_WORDS))
def test_measured_rows(data: bytes) -> None:
    Path("mine.csv").write_bytes(data)
    call(["validate", "mine.csv", "--format", "json"])


@lru_cache(maxsize=1)
def traced() -> tuple[list[bytes], Estimate]:
    written = [write(Path(name)).read_bytes() for name, write in trace_files.WRITERS.items()]
    workload = store.ready("resnet18")
    assert workload is not None
    return written, estimate(workload, device_catalog.load_device("xeon_8490h"), Scenario(1, "fp32", "eager"))


@examples(60)
@given(st.deferred(lambda: strategies.files(traced()[0])))
def test_traces(data: bytes) -> None:
    path = Path("trace")
    path.write_bytes(data)
    try:
        trace = read_trace(path)
        report = make_trace_report(trace, traced()[1])
    except TraceError as error:
        check_refusal(error)
        return
    parts = report.matched_s + report.unmatched_s + report.gap_s - report.overlap_s
    assert abs(parts - report.wall_s) <= 1e-6 * report.wall_s


SEEDS = [onnx.load(path, load_external_data=False) for path in sorted(Path(__file__).with_name("seeds").glob("*.onnx"))]
OPERATORS = re.findall(
    r"^(\w+) = ", Path(onnx_model.__file__).with_name("operator_table.toml").read_text(), re.MULTILINE
)
ONNX_WORDS = (
    *OPERATORS, "x", "batch", "n", "2*batch", "batch//2", "(batch+1)**8", "bij,bjk->bik", "SAME_UPPER", "axis", "axes",
    "perm", "pads", "strides", "dilations", "group", "to", "body",
)  # fmt: skip
BUDGET = 100_000  # steps that the reading of an example may take


def check_workload(workload: Workload) -> None:
    """Assert that the figures of a workload are finite and not negative at any batch."""
    operators = workload.operators
    for batch in (1, 64):
        at = workload.value_at(batch=batch)
        for figures in (operators.macs, operators.flops, operators.special, operators.in_numel, workload.tensors.numel):
            assert np.isfinite(figures @ at).all()
            assert (figures @ at >= 0).all()
    assert workload.parameters >= 0
    assert all(name.isprintable() for name in operators.kind)


@examples(80)
@given(
    strategies.messages(SEEDS, ONNX_WORDS)
    | strategies.flips([onnx_files.chain(5), *(seed.SerializeToString() for seed in SEEDS)])
)
def test_onnx_files(data: bytes) -> None:
    path = Path("net.onnx")
    path.write_bytes(data)
    try:
        check_workload(onnx_model.load(path, budget=Budget(BUDGET)))
    except ModelError as error:
        check_refusal(error)


@examples(100)
@given(strategies.flips([weight_files.gguf()]))
def test_weight_files(data: bytes) -> None:
    path = Path("net.gguf")
    path.write_bytes(data)
    try:
        check_workload(weight_headers.load(path, "", Budget(BUDGET)))
    except ModelError as error:
        check_refusal(error)


def plain(name: str) -> Any:
    """Return a workload as msgpack holds it, with its arrays as lists."""
    found = store.ready(name)
    assert found is not None
    both = altered.plain(store.pack(found))
    for table in (both[1]["operators"], both[1]["tensors"]):
        for key, stored in table.items():
            if isinstance(stored, dict):
                table[key] = stored | {"data": np.frombuffer(stored["data"], stored["dtype"]).tolist()}
    return both


def packed(both: Any) -> bytes:
    """Return the packed workload whose arrays are lists."""

    def pack_array(value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("data"), list):
            with np.errstate(all="ignore"):
                return value | {"data": np.array(value["data"], value["dtype"]).tobytes()}
        return {key: pack_array(each) for key, each in value.items()} if isinstance(value, dict) else value

    try:
        whole = [pack_array(each) for each in both] if isinstance(both, list) else both
        return gzip.compress(msgspec.msgpack.encode(whole), compresslevel=1, mtime=0)
    except (TypeError, ValueError, KeyError, OverflowError, UnicodeEncodeError):
        assume(False)
        raise


VALUES = (
    0, 1, -1, 2, 7, 255, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, 0.5, 1e23, 1e300, -1e300, 5e-324, math.nan, math.inf,
    "", "batch", "experts", "conv", "x" * 300, "\x1b[2J", "a.b~2", None, True, [], [0], {}, {"batch": 1}, b"\xff" * 8,
)  # fmt: skip
CAPTURED = ("mlp", "conv2d", "attention_head")
SECTIONS = ("tree", "why", "compare", "report", "advise")


@examples(60)
@given(
    strategies.trees([lambda name=name: plain(name) for name in CAPTURED], VALUES).map(packed),
    st.sampled_from(("h100_sxm", "xeon_8490h", "tpu_v4", "kpu_t256")),
    st.sampled_from(SECTIONS),
)
def test_stored_captures(data: bytes, device: str, verb: str) -> None:
    try:
        workload = store.unpack(data)
    except (OSError, ValueError) as error:
        check_refusal(error)
        return
    batch = batch_limits.fixed_batch(workload) or 1
    result = estimate(workload, device_catalog.load_device(device), Scenario(batch=batch))
    check_figures(result.latency_s, result.energy_j, result.edp_js, result.peak_memory_bytes, result.utilization)
    asked = state.State(batch=min(batch, 4096), devices=(device, "t4"), on=device)
    engine.keep(asked, workload)
    Answer(verb, asked).to_text("json")
