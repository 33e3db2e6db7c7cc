"""What every verb prints, as text, JSON and CSV, against files in `files/`.

The figures follow the fit: after a deliberate change `make golden` rewrites the files, and the change is read in the
diff. Numbers are compared to four digits, so that another machine's last bits do not matter.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hwexplorer.cli import main

FILES = Path(__file__).with_name("files")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
ON_ONE = ("--on", "h100_sxm")
VERBS: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "conv2d"),
    "compare_detailed": ("compare", "conv2d", "--level", "detailed", "--batch", "64"),
    "compare_subgraph": ("compare", "resnet_block", "--level", "subgraph"),
    "tree": ("tree", "conv2d", *ON_ONE),
    "tree_fused": ("tree", "conv2d", "--on", "tpu_v4"),
    "events": ("events", "conv2d", *ON_ONE),
    "why": ("why", "conv2d", *ON_ONE, "--node", "relu"),
    "plot": ("plot", "conv2d", "--plot", "roofline"),
    "energy_roofs": ("plot", "conv2d", "--plot", "energy_roofs"),
    "partition": ("partition", "conv2d"),
    "mapping": ("mapping", "conv2d", *ON_ONE),
    "concurrency": ("concurrency", "conv2d", *ON_ONE),
    "roofline": ("roofline", "conv2d", *ON_ONE),
    "energy": ("energy", "conv2d", *ON_ONE),
    "memory": ("memory", "conv2d", *ON_ONE),
    "edp": ("edp", "conv2d", *ON_ONE),
    "explain": ("explain", "conv2d", "h100_sxm", "tpu_v4", "--metric", "energy"),
    "sweep": ("sweep", "conv2d", "--batches", "1,8", "--precisions", "fp32", "--on", "h100_sxm,tpu_v4"),
    "pareto": ("pareto", "conv2d", "--on", "h100_sxm,tpu_v4"),
    "search": ("search", "conv2d", "--on", "h100_sxm,tpu_v4", "--max-latency", "1ms"),
    "rank": ("rank", *ON_ONE, "resnet18", "mobilenet_v2"),
    "advise": ("advise", "conv2d", *ON_ONE),
    "cost": ("cost", "conv2d", "--on", "h100_sxm,tpu_v4"),
    "check": ("check", "conv2d", "--rule", "energy(h100_sxm) < 1J"),
    "report": ("report", "conv2d", *ON_ONE),
    "device": ("device", "h100_sxm"),
    "coefficients": ("coefficients", *ON_ONE),
}


@pytest.mark.parametrize("form", ["text", "json", "csv"])
@pytest.mark.parametrize("name", VERBS)
def test_prints_what_it_printed(name: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*VERBS[name], "--format", form])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    kept = FILES / f"{name}.{'txt' if form == 'text' else form}"
    if os.environ.get("HWEXPLORER_GOLDEN"):
        FILES.mkdir(exist_ok=True)
        kept.write_text(printed.out, encoding="utf-8")
    assert _rounded(printed.out) == _rounded(kept.read_text(encoding="utf-8"))


def _rounded(text: str) -> str:
    return NUMBER.sub(lambda match: f"{float(match[0]):.4g}", text)


def test_no_file_is_left_over() -> None:
    wanted = {f"{name}.{suffix}" for name in VERBS for suffix in ("txt", "json", "csv")}
    assert {path.name for path in FILES.iterdir()} == wanted
