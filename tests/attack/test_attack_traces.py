"""Traces and measured tables that would keep their reader busy or fill memory: refused in a line."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.measured.tables import read_rows
from analysis.model import store
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.device_catalog import load_device
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State
from hwexplorer.tui.session.jobs import ModelCaptureJob
from hwexplorer_annexes.traces.alignment import align_trace
from hwexplorer_annexes.traces.trace_file import read_trace
from hwexplorer_annexes.traces.trace_record import TraceError, TraceOp, assemble_trace
from tests.waiting import never_endless, wait_until


def test_a_packed_file_of_blanks_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b" " * (80 << 20), 1))
    with pytest.raises(TraceError, match="holds more than"):
        read_trace(path)


def test_a_line_without_end_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name duration" + " " * 70_000 + "\n1,1\n")
    with pytest.raises(TraceError, match="not a known trace format"):
        read_trace(path)


def test_the_screen_reads_a_trace_in_another_process_that_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Start (ns),Duration (ns),Name\n" + "1,1,a\n" * 900_000)
    provider, state = ScreenQueries(), State(model="resnet18", devices=("xeon_8490h",), trace=str(path))
    assert not provider.ready(state)
    job = ModelCaptureJob(state, provider, lambda done: None)
    job.start()
    job.cancel()
    wait_until(job.is_done)
    assert "cancelled" in job.error()
    assert not provider.ready(state)


def test_a_file_that_is_no_trace_is_read_once_and_the_state_shown(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("no trace")
    provider, state = ScreenQueries(), State(model="resnet18", devices=("xeon_8490h",), trace=str(path))
    job = ModelCaptureJob(state, provider, lambda done: None)
    job.start()
    wait_until(job.is_done)
    assert "not a known trace format" in job.error()
    assert provider.ready(state)


def test_more_operators_than_can_be_compared_are_refused() -> None:
    workload = store.ready("resnet18")
    assert workload is not None
    result = estimate(workload, load_device("xeon_8490h"), Scenario(1, "fp32", "eager"))
    ops = [TraceOp(name="conv", kind="conv", seconds=1e-6, shapes=((1, n), (n, 2))) for n in range(1, 100_000)]
    with never_endless(), pytest.raises(TraceError, match="too many to compare"):
        align_trace(assemble_trace("pytorch", ops), result)


def test_a_table_of_too_many_cells_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("device,model," + ",".join(map(str, range(50_000))) + "\n" + "a,b\n" * 10_000)
    with pytest.raises(RequestError, match="cells"):
        read_rows([path])


def test_values_of_other_types_in_a_trace_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    dims = [[1, "x"], [2.5, 3], [True, False], [None], [[[]]], [-1], {}, [4, 8]]
    events = [{**event, "args": {"Input Dims": dims}}]
    path.write_text(json.dumps({"deviceProperties": [{"name": ["x", "\x1b[2J"]}], "traceEvents": events}))
    trace = read_trace(path)
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(trace), type=type(trace))  # as the screen gets it
    assert (read.ops[0].shapes, type(read.device)) == (((4, 8),), str)


def test_kernels_whose_correlation_is_a_list_belong_to_their_operator(tmp_path: Path) -> None:
    path, event = tmp_path / "t.json", {"ph": "X", "pid": 1, "tid": 1}
    operator = {**event, "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9}
    launch = {**event, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 1}
    kernel = {**event, "cat": "kernel", "name": "gemm", "ts": 20, "dur": 5}
    events = [operator, *({**row, "args": {"correlation": [7, {"a": 1}]}} for row in (launch, kernel))]
    path.write_text(json.dumps({"traceEvents": events}))
    assert [(op.name, op.kernels) for op in read_trace(path).ops] == [("aten::mm", ("gemm",))]


def test_a_trace_of_a_user_who_does_not_exist_is_refused_in_a_line() -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        file_access.stamp("~nobody-of-this-name/trace.json")


def test_a_table_of_more_kernels_than_a_model_has_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Start (ns),Duration (ns),Name\n" + "".join(f"{i},5,k{i}\n" for i in range(200_000)))
    with never_endless(), pytest.raises(TraceError, match="more than any model has"):
        read_trace(path)
