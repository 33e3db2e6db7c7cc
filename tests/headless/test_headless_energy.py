"""Latency times energy is EDP to the reader's eye: in no row of a table is it anything else unsaid."""

import csv
import io
import json
import re

import pytest

from tests.headless.conftest import Call
from tests.sampling import for_each

BATCH = ("--batch", "8")
BOTH = ("--on", "gpu,cpu")
SWEPT = (*BOTH, "--batches", "1,8", "--precisions", "fp32")
# Verbs whose rows state latency, energy and EDP of a model.
ROWS = {
    "compare": ("compare", "resnet18", *BATCH),
    "detailed": ("compare", "resnet18", *BATCH, "--level", "detailed"),
    "sweep": ("sweep", "resnet18", *SWEPT),
    "pareto": ("pareto", "resnet18", *SWEPT),
    "search": ("search", "resnet18", *SWEPT, "--max-latency", "1s"),
    "rank": ("rank", "resnet18", "resnet50", "--on", "gpu", *BATCH),
}
OTHERS = {
    "tree": ("tree", "resnet18", "--on", "gpu", *BATCH),
    "edp": ("edp", "resnet18", "--on", "gpu", *BATCH),
    "energy": ("energy", "resnet18", "--on", "gpu", *BATCH),
    "advise": ("advise", "resnet18", "--on", "gpu", *BATCH),
    "subgraph": ("compare", "resnet18", *BATCH, "--level", "subgraph"),
}


@pytest.mark.parametrize("name", ROWS)
def test_latency_times_energy_is_edp(call: Call, name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(call(*ROWS[name], "--format", "csv").out)))
    assert rows
    for row in rows:
        product = float(row["latency_s"]) * float(row["energy_j_per_inference"])
        assert product == pytest.approx(float(row["edp_js"]), rel=1e-9), row


def test_the_products_of_the_edp_report_are_those_of_its_columns(call: Call) -> None:
    """Of each execution mode: energy per inference x latency, as printed."""
    text = call("edp", "resnet18", "--on", "gpu", *BATCH, "--format", "json").out
    document = json.loads(text)
    for mode in document["executions"]:
        assert mode["energy_j_per_inference"] * mode["latency_s"] == pytest.approx(mode["edp_js"], rel=1e-9)
        assert mode["energy_j"] == pytest.approx(8 * mode["energy_j_per_inference"])
    for component in document["components"]:
        product = component["energy_j_per_inference"] * document["latency_s"]
        assert product == pytest.approx(component["energy_delay_js"], rel=1e-9)


@for_each("name", [*ROWS, *OTHERS])
def test_headers_say_what_an_energy_is_of(call: Call, name: str) -> None:
    """A column of joules says per inference or per batch; a plain one is a change in percent, or a winner."""
    text = call(*{**ROWS, **OTHERS}[name], "--all").out
    headers = [line for line in text.splitlines() if re.search(r"(Energy|energy)(/\S+)? +\S", line) and "  " in line]
    plain = re.compile(r"\b[Ee]nergy (?:[munpk]|µ)?J\b")
    assert not [line for line in headers if plain.search(line)]
    if name in ROWS or name in ("tree", "edp"):
        assert any(re.search(r"Energy/inf (?:[munpk]|µ)?J\b", line) for line in headers), headers
