"""A model much of whose work has no cost rule: every verb says so first, nothing is recommended, no rule holds."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from analysis.model.ir.workload import Coverage, Workload, coverage, least
from hwexplorer import engine, registry
from hwexplorer.declare import Report
from hwexplorer.state import State, parse

REPORTS = {name: verb for name in registry.names() if isinstance(verb := registry.load(name), Report)}
WORDS = [
    (name, shlex.split(words))
    for name, verb in REPORTS.items()
    if verb.subject.options
    and name not in ("models", "trace", "load")  # a load is of models whose operators all have rules
    for words in list(verb.examples.values())[:1]
]


_ALONE = "the language model alone: without its vision tower"


def without_rules(model: Workload, kinds: tuple[str, ...] = ("conv", "linear", "add", "relu")) -> Workload:
    """The same model as it would be had nobody written these rules."""
    ops = model.operators
    gone = np.isin(ops.kind, kinds)[:, None]
    blank = {name: np.where(gone, 0.0, getattr(ops, name)) for name in ("macs", "flops", "special")}
    gemm = np.where(gone[:, :, None], 0.0, ops.gemm)
    bare = msgspec.structs.replace(ops, **blank, gemm=gemm, has_rule=~gone[:, 0])
    return msgspec.structs.replace(model, operators=bare, notes=(*model.notes, _ALONE))


@pytest.fixture
def holed() -> Callable[[str], None]:
    def keep(name: str) -> None:
        state = parse(name)
        engine.keep(state, without_rules(engine.captured_model(state)))

    return keep


@pytest.mark.usefixtures("found_once")
@pytest.mark.parametrize(("name", "words"), WORDS)
def test_every_report_says_so_first(
    name: str, words: list[str], holed: Callable[[str], None], call: Callable[..., Any]
) -> None:
    for model in {words[0] if words and not words[0].startswith("-") else State().model, "conv2d"}:
        holed(model)
    words = [*registry.full_name(name).split(), *words]
    first = call(*words).out.splitlines()[0]
    assert first.startswith("INCOMPLETE: about"), first
    assert "no cost rule" in first or "without: " in first
    assert _ALONE in first
    assert '"incomplete": "INCOMPLETE' in call(*words, "--format", "json").out
    assert "INCOMPLETE" in call(*words, "--format", "csv").err


def test_nothing_is_recommended(holed: Callable[[str], None], call: Callable[..., Any], document: Any) -> None:
    holed("resnet18")
    assert set(document("compare", "resnet18")["recommendations"].values()) == {""}
    assert "least EDP" not in call("compare", "resnet18").out
    found = document("search", "resnet18", "--max-latency", "1s", "--on", "h100_sxm,t4")
    assert (found["found"], found["verdict"][:35]) == ([], "Nothing is recommended: INCOMPLETE:")
    assert document("sweep", "resnet18", "--batches", "1,2", "--on", "h100_sxm,t4")["best"] == []
    advice = document("advise", "resnet18")
    assert (advice["suggestions"], advice["tried"]) == ([], 0)
    done = call("check", "resnet18", "--rule", "latency < 1000s")
    assert done.code == 1
    assert "INCOMPLETE" in done.err


def test_a_diff_of_parts_fails_by_itself(
    holed: Callable[[str], None], call: Callable[..., Any], document: Any, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    call("tree", "resnet18", "--on", "h100_sxm", "-o", str(whole))
    assert call("why", "resnet18", str(whole), "--on", "h100_sxm").code == 0
    holed("resnet18")
    call("tree", "resnet18", "--on", "h100_sxm", "-o", str(part))
    for words in (("resnet18", str(whole)), (str(whole), "resnet18"), (str(whole), str(part))):
        done = call("why", *words, "--on", "h100_sxm")
        assert (done.code, done.out.splitlines()[0][:10]) == (1, "INCOMPLETE"), words
        assert "INCOMPLETE" in done.err


def test_a_product_without_a_rule_is_bounded_by_its_operands() -> None:
    gemm = engine.captured_model(parse("gemm:M=64,N=256,K=1024"))
    assert coverage(gemm) == Coverage()
    bare = coverage(without_rules(gemm, ("linear", "matmul")))
    assert (bare.operators, bare.work, bare.missing) == (0.0, 0.0, (("aten.matmul.default", 1),))
    whole = engine.captured_model(parse("resnet18"))
    found = coverage(without_rules(whole, ("linear",)), 4)
    assert 0.99 < found.work < 1.0
    assert found.gap == ""
    assert 0.5 < least() < 1.0
