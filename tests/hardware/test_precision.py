"""The table of number formats: read by everything that lists precisions, and the names that users give them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hardware import precision
from hardware.base.errors import RequestError
from tests.sampling import for_each

ROOT = Path(__file__).parents[2]
# What the formats of files call their types: other people's names, not precisions of a run.
DTYPES = (
    "analysis/model/",
    "analysis/capture/",
    "hwexplorer_annexes/onnx/",
)


def listed(path: Path) -> list[str]:
    """Lists, sets, tables and pairs in a module that name two formats or more."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.BoolOp):
            words = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            if len(words & set(precision.UNIT_FORMATS)) > 1:
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
        assert set(form.wider) <= set(precision.UNIT_FORMATS), form.name
        assert form.name not in form.wider
        assert not form.stored or form.stored in precision.UNIT_FORMATS
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


@for_each(
    ("text", "name"),
    [
        ("W4A16", "w4a16"), ("w4a16-KV8", "w4a16kv8"), ("w4a16_kv16", "w4a16"), ("AWQ", "w4a16"), ("gptq", "w4a16"),
        ("Q4_K", "q4_k_m"),
        ("Q4_K_M", "q4_k_m"), ("q4-k-m", "q4_k_m"), ("NVFP4", "nvfp4"), ("fp4", "nvfp4"), ("FP8-KV16", "fp8kv16"),
        ("fp8kv8", "fp8kv8"), ("int8 kv8", "int8"), ("q8_0-kv8", "q8_0kv8"), ("w8a8kv8", "w8a8kv8"),
        ("w3a16g64s32", "w3a16g64s32"), ("W4A16G32", "w4a16g32s20"),
    ],
)  # fmt: skip
def test_weights_activations_and_cache_in_one_name(text: str, name: str) -> None:
    assert precision.canonical(text) == name
    assert precision.canonical(name) == name


@pytest.mark.parametrize(
    ("wrong", "near"), [("w4a17", "w4a16"), ("q4km9", "q4_k_m"), ("nvfp5", "nvfp4"), ("w4a16kv3", "w4a16"), ("kv8", "")]
)
def test_wrong_parts_are_said_with_what_is_near(wrong: str, near: str) -> None:
    with pytest.raises(RequestError) as raised:
        precision.parse(wrong)
    assert "\n" not in str(raised.value)
    assert f"unknown precision {wrong!r}" in str(raised.value)
    assert not near or f"did you mean {near}" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("q4_0", 4.5), ("q4_1", 5.0), ("q8_0", 8.5), ("q4_k_m", 4.85), ("q6_k", 6.56), ("nvfp4", 4.5), ("mxfp4", 4.25)],
)
def test_published_bits_per_weight(name: str, bits: float) -> None:
    assert precision.FORMATS[precision.parse(name).weights].bytes * 8 == pytest.approx(bits)


ADDED = """
import sys
from hardware.base import file_access
read = file_access.table
def table(path):
    found = read(path)
    if path.name == "precision.toml":
        form = dict(bits=3, kind="integer", block=64, scale_bits=16, unpack_ops=4, source="a test")
        found["formats"]["int3_g64"] = form
        found["precisions"]["w3a16"] = dict(weights="int3_g64", activations="fp16", cache="fp16")
    return found
file_access.table = table
from hwexplorer.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_precision_is_two_lines_of_the_table() -> None:
    """Parsed, run, priced, listed, and in a sweep: nothing else names it."""

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, "-c", ADDED, *words], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    model = "llama3_8b:decode,layers=2"
    assert "int3_g64" in run("show", "memory", model, "--on", "h100_sxm", "--precision", "W3A16-kv8")
    assert "w3a16" in run("sweep", model, "--on", "b200,kpu_t256", "--batches", "1", "--precisions", "fp16,w3a16")
    assert "w3a16" in run("compare", "--help")
