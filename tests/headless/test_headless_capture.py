"""`hwexplorer capture` of one model and of several at once."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Call

from analysis.model.process.workload_jobs import run_all
from tests.terminal import hear

OWN = Path(__file__).parents[1] / "capture" / "own_models.py"


@pytest.mark.usefixtures("quick_captures")
def test_several_are_captured_and_one_that_fails_stops_no_other(call: Call) -> None:
    done = call(
        "capture", f"{OWN}:Net", f"{OWN}:Bad", f"{OWN}:Branch", f"{OWN}:net", "--input", "1x3x16x16", "--format", "json"
    )
    found = json.loads(done.out)
    assert [item["model"] for item in found["captures"]] == ["own_models.py:Net", "own_models.py:net"]
    assert [item["parameters"] for item in found["captures"]] == [260, 260]
    assert all(item["seconds"] > 0 for item in found["captures"])
    lines = done.err.splitlines()
    assert (done.code, len(lines), len(found["failures"])) == (2, 2, 2)
    assert "own_models.py:Bad: own_models.py:" in lines[0]
    assert "no such width" in lines[0]
    assert "the branch depends on values of a tensor" in lines[1]


@pytest.mark.usefixtures("quick_captures")
def test_what_is_suggested_for_an_own_model_runs_as_it_stands(call: Call) -> None:
    done = call("advise", f"{OWN}:Net", "--input", "1x3x16x16", "--on", "h100_sxm", "--instead", "a100_sxm")
    suggested = re.findall(r"hwexplorer (compare .*)", done.out)
    assert suggested
    assert all(line.startswith(f"compare {OWN}:Net --input 1x3x16x16 --on ") for line in suggested)
    assert call(*shlex.split(suggested[0])).code == 0


def test_a_wrong_name_stops_no_other_and_what_is_stored_is_not_captured(call: Call) -> None:
    done = call("capture", "resnet18", "resnt18", "mobilenet_v2", "--format", "json")
    found = json.loads(done.out)
    assert [(item["model"], item["seconds"]) for item in found["captures"]] == [("resnet18", 0), ("mobilenet_v2", 0)]
    assert done.code == 2
    assert done.err == f"hwexplorer: {found['failures'][0]}\n"
    assert "did you mean resnet18" in done.err


def test_the_table_has_a_row_for_each(call: Call, parsed: Callable[[str], list[dict[str, str]]]) -> None:
    done = call("capture", "resnet18", "vit_b_16")
    assert [(row["Model"], row["Covered"]) for row in parsed(done.out)] == [
        ("resnet18", "100.0%"),
        ("vit_b_16", "100.0%"),
    ]
    assert (done.code, done.err) == (0, "")


def test_one_workload_file_holds_one_model(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "holds one workload" in refused("capture", "resnet18", "alexnet", "-o", str(tmp_path / "two.msgpack.gz"))


@pytest.mark.usefixtures("quick_captures")
def test_what_a_gap_computes_is_bounded(call: Call, document: Callable[..., Any]) -> None:
    words = ("capture", f"{OWN}:Unknown", "--input", "1x3x16x16")
    found = document(*words)
    assert found["coverage"] == found["coverage_bytes"] == pytest.approx(0.872)
    assert (found["coverage_flops"], found["uncovered"]) == (1, {"own_models.shaped.default": 1})
    assert "of the work, at least" in call(*words).out
    assert found["incomplete"].startswith("INCOMPLETE: about 87% of the work has a cost rule")
    assert call(*words).out.startswith("INCOMPLETE")
    assert document("capture", "resnet18")["coverage_flops"] == 1


@pytest.mark.usefixtures("quick_captures")
def test_strict_names_every_gap(call: Call) -> None:
    words = ("capture", f"{OWN}:Unknown", f"{OWN}:Net", "--input", "1x3x16x16")
    assert call(*words).code == 0
    done = call(*words, "--strict")
    assert (done.code, done.err.count("shaped")) == (1, 1)


class Slow:
    """A job that counts who runs beside it."""

    most = now = 0

    def __init__(self, seconds: float) -> None:
        self.seconds, self.until, self.cancelled = seconds, 0.0, False

    def start(self) -> None:
        self.until = time.monotonic() + self.seconds
        Slow.now += 1
        Slow.most = max(Slow.most, Slow.now)

    @property
    def is_done(self) -> bool:
        ended = self.cancelled or time.monotonic() > self.until
        if ended and self.until:
            Slow.now, self.until = Slow.now - 1, 0.0
        return ended

    def wait(self, timeout: float) -> bool:
        time.sleep(0.0 if self.is_done else timeout)
        return self.is_done

    def cancel(self) -> None:
        self.cancelled = True


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_than_so_many_at_once(at_once: int) -> None:
    Slow.most = Slow.now = 0
    jobs: Any = [Slow(0.1) for _ in range(5)]
    run_all(jobs, at_once)
    assert (Slow.most, Slow.now) == (at_once, 0)


def test_an_interrupt_ends_them_all() -> None:
    jobs: Any = [Slow(60) for _ in range(3)]

    def interrupt(running: Any) -> None:
        if len(running) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(jobs, 2, interrupt)
    assert [job.cancelled for job in jobs] == [True, True, False]


def test_control_c_leaves_no_process(tmp_path: Path) -> None:
    """Two models that never end; their subprocesses are gone when the command is."""
    (tmp_path / "net.py").write_text("def a():\n    while True: pass\ndef b():\n    while True: pass\n")
    words = [
        sys.executable,
        "-m",
        "hwexplorer",
        "capture",
        f"{tmp_path}/net.py:a",
        f"{tmp_path}/net.py:b",
        "--jobs",
        "2",
    ]
    process = subprocess.Popen([*words, "--input", "1x3"], stderr=subprocess.PIPE, text=True, preexec_fn=hear)
    try:
        deadline = time.monotonic() + 60
        while len(_captures(tmp_path)) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(_captures(tmp_path)) == 4  # each with its warden
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    time.sleep(0.2)
    assert _captures(tmp_path) == []


def _captures(folder: Path) -> list[str]:
    """Running capture subprocesses of models in this folder."""
    found = subprocess.run(["ps", "-wweo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return [row for row in found.splitlines() if "analysis.capture" in row and str(folder) in row and row[0] != "Z"]
