"""The table of number formats: read by everything that lists precisions, and the names that users give them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hardware import precision
from hardware.errors import RequestError

ROOT = Path(__file__).parents[2]
# What the formats of files call their types: other people's names, not precisions of a run.
DTYPES = ("analysis/workload/", "analysis/capture/")


def listed(path: Path) -> list[str]:
    """Lists, sets, tables and pairs in a module that name two formats or more."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.BoolOp):
            words = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            if len(words & set(precision.UNITS)) > 1:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_module_lists_precisions_by_hand() -> None:
    modules = [p for folder in ("hardware", "analysis", "hwexplorer") for p in (ROOT / folder).rglob("*.py")]
    mine = [p for p in modules if not p.relative_to(ROOT).as_posix().startswith(DTYPES)]
    assert len(mine) > 100
    assert [place for path in mine for place in listed(path)] == []


def test_a_list_by_hand_is_found(tmp_path: Path) -> None:
    path = ROOT / "tests" / "hardware" / "test_plan.py"
    assert listed(path)


def test_every_format_refers_to_formats() -> None:
    for form in precision.FORMATS.values():
        assert set(form.wider) <= set(precision.UNITS), form.name
        assert form.name not in form.wider
        assert not form.stored or form.stored in precision.UNITS
        assert form.kind in ("float", "integer")
        assert form.source
        assert 0 < form.bits <= 32
        assert bool(form.block) == bool(form.scale_bits), form.name
    for name in precision.NAMES:
        each = precision.parse(name)
        assert {each.weights, each.activations, each.cache} <= set(precision.FORMATS)
    assert set(precision.SWEEP) <= set(precision.KEYS) <= set(precision.NAMES)


@pytest.mark.parametrize(
    ("text", "name"),
    [("FP16", "fp16"), ("bf-16", "bf16"), ("Float16", "fp16"), ("half", "fp16"), ("int_8", "int8"), ("w16a16", "fp16")],
)
def test_a_precision_has_one_spelling(text: str, name: str) -> None:
    assert precision.canonical(text) == name
    assert precision.parse(text) is precision.parse(name)


@pytest.mark.parametrize(
    ("wrong", "near"), [("fp61", "fp16"), ("int88", "int8"), ("", "fp32"), ("fp16\nx" * 50, "fp16")]
)
def test_a_wrong_one_is_one_line_with_what_is_allowed(wrong: str, near: str) -> None:
    with pytest.raises(RequestError) as raised:
        precision.parse(wrong)
    assert "\n" not in str(raised.value)
    assert near in str(raised.value)
    assert len(str(raised.value)) < 700
