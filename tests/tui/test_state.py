"""State strings: what is written reads back, and what is wrong says so in one line."""

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analysis.model.names.model_ref import plain
from hardware import precision
from hardware.base.errors import RequestError
from hwexplorer import settings
from hwexplorer import state as states
from hwexplorer.state import State, parse, pinned, replace
from hwexplorer.tui.session.state_changes import History, push, redo, undo

TEXT = st.text(st.characters(codec=None), max_size=30)  # surrogates too: a path need not be UTF-8
CAPPED = ("h100_sxm@400W", "jetson_agx_orin:30w@20W@1.4GHz", "h100_sxm@400w{units*2,clock_hz*0.5}", "l4@50W*2")
NAMES = st.sampled_from(["h100_sxm", "tpu_v4", "jetson_agx_orin:30w", "gpu", "a,b@c/d?e&f=g%h", "naïve ☃", *CAPPED])


def is_canonical(model: str) -> bool:
    """Return whether a name is no other spelling of a known model (`GPTJ` is read as `gptj_6b`)."""
    text = states.format(State(model=model))
    return plain(text) == text


STATES = st.builds(
    State,
    model=TEXT.filter(bool).filter(is_canonical),
    image_size=st.none() | st.integers(1, settings.IMAGE_MAX),
    batch=st.integers(1, settings.BATCH_MAX),
    precision=st.builds(str.__add__, st.sampled_from(precision.NAMES), st.sampled_from(("", "kv4", "kv8"))),
    execution=st.sampled_from(settings.EXECUTIONS),
    layout=st.sampled_from(settings.LAYOUTS),
    devices=st.lists(NAMES, min_size=1, unique=True).map(tuple),
    on=NAMES,
    baseline=NAMES,
    at=TEXT,
    pane=st.sampled_from(states.PANES),
    zoom=st.booleans(),
    metric=st.sampled_from(states.METRICS),
    by=st.sampled_from(states.BYS),
    sort=st.sampled_from(states.SORTS),
    descending=st.booleans(),
    find=TEXT,
    open=st.lists(TEXT.filter(bool), max_size=4).map(tuple),
    pin=st.sampled_from(["", "tpu_v4@b8,fp16", "h100_sxm", "resnet18/gpu@int8,i64", "a%2Fb@b2", "l4@50W@b2"]),
    rank=st.sampled_from(states.RANKS),
    rank_reverse=st.booleans(),
    heat=st.booleans(),
    trace=TEXT,
    limits=st.sampled_from(["", "L<5ms", "L<=5ms E<1J P>30W M<8GiB"]),
)
EXAMPLE = "resnet50@b8,fp16,fused/h100_sxm,jetson_agx_orin:30w?at=layer3.2.conv2&sort=share&pin=tpu_v4@b8,fp16"


@given(STATES)
@example(State(model="resnet50", open=("(", "0")))
def test_round_trip(state: State) -> None:
    text = states.format(state)
    assert text.isascii()
    assert " " not in text
    assert parse(text) == state


@given(STATES)
def test_the_pin_round_trips_too(state: State) -> None:
    there = pinned(replace(state, pin=states.pin_string(state)))
    assert there is not None
    assert replace(there, pin=state.pin) == state


@given(st.text(max_size=60))
def test_any_text_is_a_state_or_a_request_error(text: str) -> None:
    try:
        parse(text)
    except RequestError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message


def test_the_example_of_the_design() -> None:
    state = parse(EXAMPLE)
    assert (state.model, state.batch, state.precision, state.execution) == ("resnet50", 8, "fp16", "fused")
    assert state.devices == ("h100_sxm", "jetson_agx_orin:30w")
    assert (state.at, state.sort, state.on) == ("layer3.2.conv2", "share", "h100_sxm")
    assert states.format(state) == EXAMPLE
    there = pinned(state)
    assert there is not None
    assert (there.on, there.batch, there.precision, there.execution) == ("tpu_v4", 8, "fp16", "auto")


def test_defaults_are_left_out_and_shapes_stay_readable() -> None:
    assert states.format(State()) == "resnet50"
    assert parse("") == State()
    gemm = State(model="gemm:M=8192,N=8192,K=8192", batch=2)
    assert states.format(gemm) == "gemm:M=8192,N=8192,K=8192@b2"
    assert states.format(State(model="my/net.py:make")) == "my%2Fnet.py:make"
    assert State(devices=("tpu_v4",)).on == "tpu_v4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet50@b0", "batch 0 is out of range (allowed: 1 to 4096)"),
        ("resnet50@b-1", "batch -1 is out of range"),
        ("resnet50@b5000", "allowed: 1 to 4096"),
        ("resnet50@btwo", "unknown setting 'btwo'"),
        ("resnet50@fp17", "unknown setting 'fp17': did you mean fp16"),
        ("resnet50@fp16,fp32", "precision is given twice"),
        ("resnet50?sortt=share", "unknown key 'sortt': did you mean sort?"),
        ("resnet50?sort=shere", "unknown sort 'shere': did you mean share?"),
        ("resnet50?zoom=yes", "expected 0 or 1"),
        ("resnet50/tpu_v4?on=tpu_v5", "did you mean tpu_v4?"),
        ("resnet50/tpu_v4,tpu_v4", "listed twice"),
        ("resnet50?pin=@b8", "expected a device"),
        ("resnet50?pin=tpu_v4@b0", "batch 0"),
        ("%ff", "not valid percent-encoded"),
        ("resnet50@i0", "image size 0"),
    ],
)
def test_errors_are_one_line_with_the_nearest_match(text: str, message: str) -> None:
    with pytest.raises(RequestError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@given(st.lists(STATES, max_size=8))
def test_undo_then_redo_is_where_we_were(steps: list[State]) -> None:
    history = History()
    for step in steps:
        history = push(history, step)
    assert history.present == (steps[-1] if steps else State())
    back = undo(history)
    if history.past:
        assert redo(back).present == history.present
        assert len(redo(back).past) == len(history.past)
    else:
        assert back == history


def test_moving_is_no_step_of_its_own() -> None:
    history = push(History(), State(batch=8))
    history = push(history, State(batch=8, at="conv1", pane="why"))
    history = undo(history)
    assert (history.present.batch, history.present.pane) == (1, "why")
    assert redo(history).present.at == "conv1"
    assert push(history, history.present) is history


def test_the_state_loads_no_screen_and_no_engine() -> None:
    heavy = "('textual', 'numpy', 'analysis.estimate.estimate', 'analysis.model.store')"
    code = f"import sys, hwexplorer.state; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("text", ["resnet50@b8,W4A16-KV8", "resnet50@w4a16_kv8,b8", "resnet50@b8,AWQ-kv8"])
def test_a_precision_is_written_in_one_way(text: str) -> None:
    state = parse(text)
    assert (state.batch, state.precision) == (8, "w4a16kv8")
    assert states.format(state) == "resnet50@b8,w4a16kv8"


def test_models_are_asked_for_in_16_bits_or_as_they_are_stored() -> None:
    """One format for all devices; what is said is kept, and written where it is not the default."""
    assert states.parse("resnet50").precision == states.parse("bert_base").precision == "bf16"
    for text in ("llama3_8b", "Llama-3-8B:decode,kv=64", "llama3_8b:request,in=8,out=8/h100_sxm"):
        assert states.parse(text).precision == "bf16"
    asked = states.parse("llama3_8b:decode@fp32")
    assert (asked.precision, states.format(asked)) == ("fp32", "llama3_8b:decode@fp32")
    assert states.format(states.parse("llama3_8b@bf16")) == "llama3_8b"
    opened = states.with_model(states.parse("resnet50"), "llama3_8b")
    assert opened.precision == "bf16"
    assert states.with_model(opened, "resnet50").precision == "bf16"
    assert states.with_model(states.parse("resnet50@fp16"), "llama3_8b").precision == "fp16"
