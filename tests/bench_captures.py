"""How many models that nobody here wrote can be captured: `python -m tests.bench_captures [FAMILY ..] [-o FILE]`.

Each model is built as its users build it, with random weights, in a process of its own with a limit of processor time;
its multiply-accumulates are held against torch.utils.flop_counter on the meta device. Prints a JSON line per model, and
with `-o` writes docs/models-tried.md. A family whose library is not installed says so. Models of transformers are cut
to two layers where their configuration has a number of them, which some cannot be: their failures say so.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.utils.flop_counter import FlopCounterMode

from analysis.capture import user
from analysis.capture.runtime import import_torchvision, versions, without_weights
from analysis.workload import targets
from analysis.workload.answer import one_line
from analysis.workload.coverage import coverage
from analysis.workload.lower import lower
from analysis.workload.sources.budget import Budget
from analysis.workload.sources.onnx import model
from analysis.workload.sources.onnx.file import read
from analysis.workload.sources.onnx.inputs import OpenSizeError
from analysis.workload.workload import Workload
from hardware import files
from tests import captured_families as families
from tests import onnx_counter

LIMIT_S, WAIT_S, MEMORY = 180, 1800, 9 << 30  # of processor; until it is given up
_INPUTS = 40  # of an ONNX file
CLOSE = 1e-3  # of the two counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*")
    parser.add_argument("-o", type=Path)
    parser.add_argument("--log", type=Path, help="file of lines printed before: what is in it is not tried again")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.log.read_text().splitlines()] if options.log else []
    for row in _run(options.family or list(families.ALL), {(row["family"], row["model"]) for row in rows}):
        rows.append(row)
        print(json.dumps(row), file=options.log.open("a") if options.log else None, flush=True)
    if options.o:
        files.write(options.o, [_table(rows)])


def _run(chosen: list[str], known: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    import_torchvision()
    for family in chosen:
        try:
            models = families.ALL[family]()
        except ImportError as error:
            print(f"{family}: {one_line(error)}", file=sys.stderr)
            continue
        for name, build in models.items():
            if (family, name) not in known:
                yield {"family": family, "model": name, **_in_a_process(build)}


def _in_a_process(build: Callable[[], Any] | Path) -> dict[str, Any]:
    """What one model gave, whatever it does to its process."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_one, args=(build, there))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(WAIT_S) else {"failure": f"longer than {WAIT_S} s"}
    except EOFError:
        return {"failure": f"its process ended (at most {LIMIT_S} s of processor, {MEMORY >> 30} GiB)"}
    finally:
        child.kill()
        child.join()


def _one(build: Callable[[], Any] | Path, answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    start = time.process_time()
    try:
        if isinstance(build, Path):
            workload, given = _opened(build)
        else:
            workload = lower(user._capture(build, (), 0, lambda phase, fraction: None), "tried", "custom", "tests")
        seconds = time.process_time() - start
        point = workload.at(batch=1)
        answer.send({
            "macs": float((workload.operators.macs @ point).sum()),
            "counted": onnx_counter.counted(build, workload, given) if isinstance(build, Path) else _counted(build),
            "coverage": coverage(workload).work,
            "missing": [name for name, _ in coverage(workload).missing],
            "batch": workload.inputs[0].shape[:1] == ("batch",),
            "operators": workload.n_operators,
            "notes": list(workload.notes),
            "seconds": round(seconds, 1),
        })  # fmt: skip
    except BaseException as error:
        answer.send({"failure": one_line(error), "seconds": round(time.process_time() - start, 1)})


def _opened(path: Path) -> tuple[Workload, list[targets.Input]]:
    """The workload of an ONNX file, and what it was given: what it leaves open, as its refusal says."""
    words = next((words for part, words in families.SIZES.items() if part in str(path)), [])
    declared = {info.name for info in read(path, Budget()).top.inputs}
    given = [item for item in map(targets.parse_input, words) if item.name in declared]
    while True:
        try:
            return model.load(path, given), given
        except OpenSizeError as error:
            name = re.search(r"'([^']+)' is .*--input (\S+)", str(error))
            if name is None or len(given) == _INPUTS:
                raise
            given.append(msgspec.structs.replace(targets.parse_input(name[2]), name=name[1]))


def _counted(build: Callable[[], Any]) -> float | None:
    """Multiply-accumulates by torch's counter on the meta device; None where the model does not run there."""
    try:
        with without_weights(), torch.no_grad():
            module, given = build()
            module.eval().to("meta")
            arguments, keywords = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda value: value.to("meta"), user.placed(module, given)
            )
            with FlopCounterMode(display=False) as counter:
                module(*arguments, **keywords)
        return counter.get_total_flops() / 2
    except Exception:
        return None


def _agrees(row: dict[str, Any]) -> bool:
    return bool(row["counted"]) and abs(row["macs"] / row["counted"] - 1) <= CLOSE


def _table(rows: list[dict[str, Any]]) -> str:
    used = versions() | {name: version(name) for name in families.PACKAGES}
    lines = [
        "# Models tried",
        "",
        f"Written by `python -m tests.bench_captures -o docs/models-tried.md` on {datetime.now(UTC):%Y-%m-%d} with "
        + ", ".join(f"{name} {number}" for name, number in used.items())
        + ". Random weights, each library's own input size; MACs of one input against torch.utils.flop_counter on the "
        f"meta device (equal: within {CLOSE:.1%}; not counted: the model does not run there).",
        "",
        "| family | tried | captured | any batch | coverage 100 % | MACs equal | differ | not counted | s, median |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    names = dict.fromkeys(row["family"] for row in rows)
    by_family = {family: [row for row in rows if row["family"] == family] for family in names}
    for family, of in [*by_family.items(), ("**all**", rows)]:
        done = [row for row in of if "failure" not in row]
        counted = [row for row in done if row["counted"]]
        equal, seconds = sum(map(_agrees, counted)), sorted(row["seconds"] for row in done)
        cells = (
            family, len(of), len(done), sum(row["batch"] for row in done), sum(row["coverage"] == 1 for row in done),
            equal, len(counted) - equal, len(done) - len(counted), seconds[len(seconds) // 2] if seconds else "",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    failed = (row for row in rows if "failure" in row)
    lines += ["", "## Not captured", "", *(f"- {row['family']} {row['model']}: {row['failure']}" for row in failed)]
    captured = [row for row in rows if "failure" not in row]
    lines += ["", "## Counted differently", ""]
    lines += [
        f"- {row['family']} {row['model']}: {row['macs'] / 1e6:,.1f} M here, {row['counted'] / 1e6:,.1f} M there"
        for row in captured if row["counted"] and not _agrees(row)
    ]  # fmt: skip
    lines += ["", "## Without a cost rule", ""]
    lines += [
        f"- {row['family']} {row['model']}: {row['coverage']:.1%} covered; without: {', '.join(row['missing'])}"
        for row in captured if row["coverage"] < 1
    ]  # fmt: skip
    lines += ["", "## Every model", "", "| family | model | GMAC | counted | coverage | operators | seconds |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    for row in captured:
        theirs = f"{row['counted'] / 1e9:.4g}" if row["counted"] else ""
        lines.append(
            f"| {row['family']} | {row['model']} | {row['macs'] / 1e9:.4g} | {theirs} | {row['coverage']:.1%} "
            f"| {row['operators']} | {row['seconds']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
