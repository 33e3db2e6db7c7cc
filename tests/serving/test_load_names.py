"""A load in the name of a model: what it says, how it is written, what is wrong with it in one line."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.model.model_errors import ModelError
from analysis.model.names.model_ref import refer
from analysis.model.transformer.transformer_request import SHARES, LoadSpec, Request
from hwexplorer import engine
from hwexplorer import state as states
from hwexplorer.cli import main
from tests.sampling import for_each

HEAD = "llama3_8b:serve,in=256,out=32"


def request_named(text: str) -> Request:
    """Return what a name means."""
    ref = refer(text)
    assert isinstance(ref, Request)
    return ref


LOADS = st.builds(
    lambda arrivals, cached, seed, dp, pp: LoadSpec(**arrivals, cached=cached, seed=seed, dp=dp, pp=pp),
    st.one_of(
        st.floats(0.01, 1000).map(lambda rate: {"rate": float(f"{rate:g}")}),
        st.integers(1, 4096).map(lambda clients: {"concurrency": clients}),
        st.just({"requests": "Monday.csv"}),
    ),
    st.integers(0, 255),
    st.integers(0, 1000),
    st.integers(1, 8),
    st.integers(1, 32),
)


@settings(max_examples=60, deadline=None)
@given(LOADS)
def test_a_load_is_written_as_it_is_read(load: LoadSpec) -> None:
    request = request_named(
        request_named("llama3_8b:request,in=256,out=32,tp=2").serve(*load.words, "tp=2", without=SHARES)
    )
    assert request.load == load
    assert (request.run.sequence, request.run.output, request.run.tp) == (256, 32, 2)
    assert request_named(str(request)) == request


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 1000) | st.integers(1, 4096))
def test_a_key_raises_and_lowers_a_load(amount: float) -> None:
    load = LoadSpec(concurrency=amount) if isinstance(amount, int) else LoadSpec(rate=amount)

    def size(one: LoadSpec) -> float:
        return one.concurrency or one.rate

    assert size(load) < size(load.scaled(True)) <= 4.01 * size(load) or size(load) == 4096
    assert size(load) / 4.01 <= size(load.scaled(False)) < size(load) or size(load) == 1


@for_each(
    ("name", "says"),
    [
        ("llama3_8b:serve", "needs a load"),
        (f"{HEAD},rate=nan", "rate=nan is not a number from 1e-06 to 100 k"),
        (f"{HEAD},rate=0", "rate=0 is not"),
        (f"{HEAD},rate=-1", "rate=-1 is not"),
        (f"{HEAD},rate=1e9", "from 1e-06 to 100 k"),
        (f"{HEAD},rate=1e-300", "from 1e-06 to 100 k"),
        (f"{HEAD},rate=5,rate=6", "rate is given twice: 5 and 6"),
        ("llama3_8b:decode,kv=4096,kv=1", "kv is given twice: 4096 and 1"),
        (f"{HEAD},rat=5", "did you mean rate"),
        ("llama3_8b:srve,rate=5", "did you mean serve"),
        (f"{HEAD},rate=5,concurrency=2", "exclude each other"),
        (f"{HEAD},rate=5,cached=256", "less than the prompt of 256 tokens"),
        (f"{HEAD},rate=5,spread=2", "spread=2 is not"),
        (f"{HEAD},rate=5,pp=33", "from 1 to 32"),
        (f"{HEAD},rate=5,prefill=2", "go together"),
        (f"{HEAD},rate=5,prefill=2,decode=2,dp=2", "without dp="),
        (f"{HEAD},rate=5,spec=99", "from 0 to 16"),
        ("llama3_8b:cached=5", "belongs to a load"),
        ("llama3_8b:decode,rate=5", "belongs to a load"),
        ("llama3_8b:prefill,rate=5", "belongs to a load"),
        ("llama3_8b:decode,prefill", "phase is given twice"),
        ("llama3_8b:prefill,out=5", "prefill has lengths sequence= and kv=, not out="),
        ("llama3_8b:prefill,in=5,sequence=6", "prefill has lengths sequence= and kv=, not in="),
        ("llama3_8b:decode,in=5", "decode has lengths sequence= and kv=, not in="),
        ("llama3_8b:request,kv=5", "request has lengths in= and out=, not kv="),
        ("bert_base:rate=5", "no parameter 'rate'"),
    ],
)
def test_a_wrong_load_is_one_line(name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says) as error:
        refer(name)
    assert "\n" not in str(error.value)


def test_a_load_in_a_name_is_a_setting_of_the_state() -> None:
    state = states.parse("llama3_8b:serve,in=256,out=32,requests=/data/monday.csv,cached=8/l4*8,h100_sxm")
    assert state.devices == ("l4*8", "h100_sxm")
    assert (state.model, state.load) == ("llama3_8b:request,in=256,out=32", "requests=/data/monday.csv,cached=8")
    assert engine.ref(state) == request_named(f"{HEAD},requests=/data/monday.csv,cached=8")
    assert states.parse(states.format(state)) == state
    same = states.parse("llama3_8b:request,in=256,out=32@cached=8,requests=%2Fdata%2Fmonday.csv/l4*8,h100_sxm")
    assert same == state
    assert states.replace(state, load="rate=2").model == state.model


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "no request"),
        (["1,5,5", "0,5,5"], "line 3: arrives before the request of the line above"),
        (["-1,5,5"], "line 2: expected a time of 0 s or more"),
        (["nan,5,5"], "line 2: expected a time of 0 s or more"),
        (["0,5,0"], "1 to 10 million tokens"),
    ],
)
def test_a_wrong_trace_in_a_name_is_one_line(
    rows: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]))
    assert main(["compare", f"llama3_8b:serve,requests={trace}", "--on", "l4"]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_trace_is_read_again_when_it_changes(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    state = states.State(f"llama3_8b:serve,requests={trace}", precision="bf16", devices=("l4",), on="l4")
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n")
    assert engine.serve_load(state).load.requests == 1
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,100,10\n")
    assert engine.serve_load(state).load.requests == 2


def test_a_model_that_does_not_fit_is_one_line_that_says_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "llama3_70b:serve,in=256,out=32,rate=1", "--on", "l4"]) in (0, None)
    out = " ".join(capsys.readouterr().out.split())
    assert "L4 does not fit: weights and one request take 141 GB of 21.7 GB" in out
    assert "l4*8" in out
