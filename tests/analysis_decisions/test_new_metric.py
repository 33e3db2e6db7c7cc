"""One entry of METRICS is a metric everywhere: in rules, searches, comparisons, JSON and the Python API."""

import json
import subprocess
import sys
from typing import Any

ENTRY = """
import sys
from analysis.estimate.metrics import METRICS, Metric
METRICS["mac_energy"] = Metric(
    "energy_j_per_mac", "J", "Energy per MAC", "energy per MAC", limit_example="5pJ", band="energy",
    ratio="mac_energy", is_order=True, is_ruled=True, formula=lambda run: run.energy_j / float(run.demand.macs.sum()),
)
"""
COMMAND = ENTRY + "from hwexplorer.cli import main; sys.exit(main(sys.argv[1:]))"


def run(*words: str, code: str = COMMAND, ends: int = 0) -> str:
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == ends, done.stderr
    return done.stdout


def document(*words: str) -> Any:
    return json.loads(run(*words, "--format", "json"))


def test_rules_limits_orders_and_ratios_have_it() -> None:
    verb = ("compare", "resnet18", "--on", "h100_sxm,l4")
    rows = {row["device"]: row["derived"]["energy_j_per_mac"] for row in document(*verb)["rows"]}
    ratio = document(*verb)["rows"][1]["ratio_to_baseline"]["mac_energy"]
    assert ratio in (rows["l4"] / rows["h100_sxm"], rows["h100_sxm"] / rows["l4"], 1.0)
    check = ("check", "resnet18", "--on", "l4", "--rule")
    assert "mac_energy of resnet18 on l4 is" in run(*check, "mac_energy(l4) < 1J")
    run(*check, "ratio(mac_energy, l4, h100_sxm) > 1000", ends=1)
    assert "--max-mac-energy X" in run("search", "--help")
    sort = ("--sort", "mac_energy")
    most = sorted(rows.values())[0] * 1.5
    search = document("search", "resnet18", "--on", "h100_sxm,l4", "--max-mac-energy", f"{most}J", *sort)
    found = [one["derived"]["energy_j_per_mac"] for one in search["found"]]
    surest = next((i for i in range(1, len(found)) if found[i] < found[i - 1]), len(found))
    assert found[:surest] + sorted(found[surest:]) == found  # those that surely keep the limit come first
    assert 0 < max(found) <= most


def test_python_has_it() -> None:
    code = ENTRY + (
        "import hwexplorer as hx\n"
        "found = hx.search('resnet18', on='h100_sxm', max_mac_energy=1.0).document.found[0]\n"
        "rule = hx.check('resnet18', rule='mac_energy(h100_sxm) < 1J').document\n"
        "print(found.derived['energy_j_per_mac'] < 1, rule.holds)"
    )
    assert run(code=code) == "True True\n"
