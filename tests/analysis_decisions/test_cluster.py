"""A sweep on a Dask cluster has the bytes of one on this machine, also if a worker is killed in the middle."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.model.names import zoo
from hwexplorer import cli
from hwexplorer.reports import _bulk_sweep

distributed = pytest.importorskip("distributed")
SMALL = ("--on", "t4,kpu_t256", "--batches", "1,8", "--precisions", "fp16,int8")
SEVERAL = ("--on", "t4,h100_sxm,l4", "--batches", "1,2,4,8")  # at least ten chunks


@pytest.fixture
def scheduler() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        yield local


def _sweep(target: Path, *words: str) -> bytes:
    assert cli.main(["sweep", "--all", *words, "-o", str(target)]) == 0
    return target.read_bytes()


def test_a_cluster_writes_the_bytes_of_this_machine(
    tmp_path: Path, scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [info for info in zoo.models() if info.name in ("alexnet", "resnet18", "vgg11")]
    monkeypatch.setattr(zoo, "models", lambda: some)
    there = _sweep(tmp_path / "there.csv", *SMALL, "--cluster", scheduler.scheduler_address)
    assert there == _sweep(tmp_path / "here.csv", *SMALL, "--workers", "1")


@pytest.mark.slow
def test_a_killed_worker_changes_no_byte(tmp_path: Path, scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, killed = _bulk_sweep._lines, []

    def kill_one_after_the_third(*asked: Any) -> Iterator[str]:
        for place, text in enumerate(lines(*asked)):
            if place == 3:
                worker = next(iter(scheduler.workers.values()))
                killed.append(worker.pid)
                os.kill(worker.pid, signal.SIGKILL)
            yield text

    here = _sweep(tmp_path / "here.csv", *SEVERAL, "--workers", "2")
    assert here.count(b"\n") > 10 * 32
    monkeypatch.setattr(_bulk_sweep, "_lines", kill_one_after_the_third)
    assert _sweep(tmp_path / "there.csv", *SEVERAL, "--cluster", scheduler.scheduler_address) == here
    assert killed


def test_a_scheduler_that_does_not_answer_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sweep", "--all", "--cluster", "tcp://127.0.0.1:9"]) == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
