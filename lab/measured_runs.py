"""Write the measured runs of whole models in the terms of estimates (analysis/estimate/measured_runs.py)."""

import csv
import gzip
from pathlib import Path
from typing import Any

import msgspec

import lab
from analysis.estimate.measured_runs import ASKED, PATH, MeasuredRun, asked_of
from analysis.measured import predictions, tables
from analysis.measured.tables import Unpredictable
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from lab import measured_rows

TABLES = (*measured_rows.MODELS, "own_models.csv.gz", "own_llm.csv.gz")
_YEARS = Path(__file__).with_name("source_years.csv")


def _year(row: dict[str, str], years: list[dict[str, str]]) -> int:
    """Return the year in which a row was published or measured, 0 if it is not known."""
    origin = row.get("origin") or ""
    return next((int(y["year"]) for y in years if row["source"].startswith(y["source"]) and y["origin"] in origin), 0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}")


def main() -> None:
    """Write PATH, one run for each row that can be predicted, by model, the newest first."""
    lab.load_superseded_runtimes()
    with _YEARS.open(encoding="utf-8") as file:
        years = list(csv.DictReader(file))
    runs = set[MeasuredRun]()
    for row in measured_rows.shipped_rows(TABLES):
        try:
            known = predictions.interpret_row(row)
            asked: dict[str, Any] = dict(zip(ASKED, asked_of(predictions.estimate_row(known)), strict=True))
            asked["device"] = known.device.key  # an estimate may be at the clocks of short calls
        except (Unpredictable, RequestError):
            continue
        stated = tables.Cells(row).number("energy_mJ_per_inference", 1e-3)
        is_stated = "phase" in row or (known.energy_j is not None and known.energy_j == stated)
        run = MeasuredRun(
            **asked,
            latency_s=_rounded(known.latency_s),
            energy_j=_rounded(known.energy_j) if is_stated else None,
            software=" ".join(filter(None, (row.get("framework") or row.get("runtime"), row.get("device_mode")))),
            source=row["source"],
            year=_year(row, years),
        )
        if run.latency_s or run.energy_j:
            runs.add(run)
    ordered = sorted(runs, key=lambda run: (run.model, -run.year, msgspec.json.encode(run)))
    by_model = group_by(ordered, lambda run: run.model)
    files = {model: gzip.compress(msgspec.json.encode(runs), mtime=0) for model, runs in by_model.items()}
    PATH.write_bytes(msgspec.msgpack.encode(files))


if __name__ == "__main__":
    main()
