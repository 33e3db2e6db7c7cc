"""How many models that nobody here wrote can be captured.

`python -m examples.corpus.bench_captures [FAMILY ..] [-o FILE]` runs from the root of a checkout.

Each model is built as its users build it, with random weights, in a process of its own with a limit of processor time;
its multiply-accumulates are held against another counter. Prints a JSON line per model, and with `-o` writes
docs/models-tried.md with its tables beside it as CSV. A family whose library is not installed says so.
"""

import argparse
import csv
import io
import json
import math
import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from analysis.capture import user_model
from analysis.capture.exporter import tensors_in
from analysis.capture.torch_settings import import_torchvision, versions, without_weights
from analysis.model.ir.coverage import coverage
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.names import targets
from analysis.model.process.answering import one_line
from analysis.model.reading_budget import Budget
from examples.corpus import (
    bench_configurations,
    captured_more,
    captured_strangers,
    captured_wider,
    captured_written,
    onnx_counter,
)
from examples.corpus import captured_families as families
from hardware.base import file_access
from hwexplorer_annexes.onnx import onnx_model
from hwexplorer_annexes.onnx.input_sizes import OpenSizeError
from hwexplorer_annexes.onnx.onnx_file import read

_ABOUT = (
    "Random weights, each library's own input size; models of transformers are cut to two layers, where their "
    "configuration allows it. ONNX files are those inside packages (captured_families.py), of an ensemble one. "
    "MACs are those of one input, held against torch.utils.flop_counter on the meta device, or with weights where a "
    "model asks for values, and for ONNX against the shapes that ONNX Runtime sees; equal means within 0.1 %, not "
    "counted that neither runs it (or that it has more than 0.5 G parameters and asks for values)."
)
_ALL = families.ALL | captured_more.ALL | captured_wider.ALL | captured_written.ALL | captured_strangers.ALL
LIMIT_S, WAIT_S, MEMORY = 180, 1800, 9 << 30  # of processor; until it is given up
_INPUTS = 40  # of an ONNX file
_PARAMETERS = 1 << 29  # of a model that is run with weights
_SHOWN = 3  # models of a reason
CLOSE = 1e-3  # of the two counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*")
    parser.add_argument("-o", type=Path)
    parser.add_argument("--log", type=Path, help="file of lines printed before: what is in it is not tried again")
    options = parser.parse_args()
    is_known = options.log is not None and options.log.exists()
    rows = [json.loads(line) for line in options.log.read_text().splitlines()] if is_known else []
    for row in _run(options.family or list(_ALL), {(row["family"], row["model"]) for row in rows}):
        rows.append(row)
        print(json.dumps(row), file=options.log.open("a") if options.log else None, flush=True)
    if options.o:
        page = _table(rows)
        known = _read_page(options.o) if options.o.exists() else ""
        _write_page(options.o, _merge_pages(known, page, {row["family"] for row in rows}) if known else page)


def _run(chosen: list[str], known: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    torch.set_num_threads(1)
    import_torchvision()
    for family in chosen:
        try:
            models = _ALL[family]()
        except ImportError as error:
            print(f"{family}: {one_line(error)}", file=sys.stderr)
            continue
        for name, build in models.items():
            if (family, name) not in known:
                is_file = isinstance(build, Path)
                row = _file(build, family != families.SUITE) if is_file else _in_a_process(build)
                yield {"family": family, "model": name, **row}


def _in_a_process(build: Callable[[], Any]) -> dict[str, Any]:
    """Return the row of one model, whatever it does to its process."""
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


def _one(build: Callable[[], Any], answer: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    graph = partial(user_model._capture, build, (), 0, _silent)
    answer.send(_row(lambda: lower_graph(graph(), "tried", "custom", "tests"), build))


def _silent(phase: str, fraction: float) -> None:
    pass


def _row(load: Callable[[], Workload], build: Callable[[], Any] | None) -> dict[str, Any]:
    """Return the figures of a capture, or why there is none."""
    start = time.process_time()
    try:
        workload = load()
    except BaseException as error:
        return {"failure": one_line(error), "seconds": round(time.process_time() - start, 1)}
    seconds = time.process_time() - start
    return {
        "macs": float((workload.operators.macs @ workload.value_at(batch=1)).sum()),
        "counted": _counted(build, "batch" in workload.inputs[0].shape[:1]) if build and workload.inputs else None,
        "coverage": coverage(workload).work,
        "missing": [name for name, _ in coverage(workload).missing],
        "batch": bool(workload.inputs) and "batch" in workload.inputs[0].shape,
        "operators": workload.n_operators,
        "notes": list(workload.notes),
        "seconds": round(seconds, 1),
    }


def _file(path: Path, is_counted: bool) -> dict[str, Any]:
    """The same of an ONNX file, which is data and read here."""
    given: list[targets.Input] = []

    def load() -> Workload:
        workload, sizes = _opened(path)
        given.extend(sizes)
        return workload

    row = _row(load, None)
    if is_counted and "failure" not in row:
        row["counted"] = onnx_counter.counted(path, load(), given)
    return row


def _opened(path: Path) -> tuple[Workload, list[targets.Input]]:
    """The workload of an ONNX file, and what it was given: what it leaves open, as its refusal says."""
    words = next((words for part, words in families.SIZES.items() if part in str(path)), [])
    declared = {info.name for info in read(path, Budget()).top.inputs}
    given = [item for item in map(targets.parse_input, words) if item.name in declared]
    while True:
        try:
            return onnx_model.load(path, given), given
        except OpenSizeError as error:
            name = re.search(r"'([^']+)' is .*--input (\S+)", str(error))
            if name is None or len(given) == _INPUTS:
                raise
            given.append(msgspec.structs.replace(targets.parse_input(name[2]), name=name[1]))


def _counted(build: Callable[[], Any], has_batch: bool) -> float | None:
    """Multiply-accumulates of one input by torch's counter: on the meta device, and with weights where the model asks
    for values that this has not, unless they are many. None where it runs neither way."""
    with suppress(Exception), without_weights():
        module, given = build()
        with suppress(Exception):
            return _run_counted(module, given, "meta", has_batch)
        if sum(parameter.numel() for parameter in module.parameters()) > _PARAMETERS:
            return None
    with suppress(Exception):
        return _run_counted(*build(), torch.get_default_device().type, has_batch)
    return None


def _run_counted(module: Any, given: Any, device: str, has_batch: bool) -> float:
    module.eval().to(device)
    inputs = torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda value: value.to(device), user_model.as_arguments(module, given)
    )
    plain = sdpa_kernel(SDPBackend.MATH)  # what processors fuse is not counted
    with torch.no_grad(), plain, FlopCounterMode(display=False) as counter:
        module(*inputs[0], **inputs[1])
    batch = tensors_in(inputs)[0].shape[0] if has_batch else 1
    return counter.get_total_flops() / 2 / batch


def _agrees(row: dict[str, Any]) -> bool:
    return math.isclose(row["macs"], row["counted"], rel_tol=CLOSE)


def _table(rows: list[dict[str, Any]]) -> str:
    used = versions() | {name: version(name) for name in families.PACKAGES if find_spec(name)}
    lines = [
        "# Models tried",
        "",
        "Written by `python -m examples.corpus.bench_captures -o docs/models-tried.md` on "
        f"{datetime.now(UTC):%Y-%m-%d} with "
        + ", ".join(f"{name} {number}" for name, number in used.items())
        + f". {_ABOUT}",
        "",
        "| family | tried | captured | any batch | coverage 100 % | MACs equal | differ | not counted | s, median |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    models = [row for row in rows if row["family"] != families.SUITE]
    names = dict.fromkeys(row["family"] for row in models)
    by_family = {family: [row for row in rows if row["family"] == family] for family in (*names, families.SUITE)}
    by_family = {**by_family, "**all models**": models, families.SUITE: by_family.pop(families.SUITE)}
    for family, of in by_family.items():
        done = [row for row in of if "failure" not in row]
        counted = [row for row in done if row["counted"] is not None]
        equal, seconds = sum(map(_agrees, counted)), sorted(row["seconds"] for row in done)
        cells = (
            family, len(of), len(done), sum(row["batch"] for row in done), sum(row["coverage"] == 1 for row in done),
            equal, len(counted) - equal, len(done) - len(counted), seconds[len(seconds) // 2] if seconds else "",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    captured = [row for row in models if "failure" not in row]
    lines += _listed("Not captured", (f"{_name(row)}: {row['failure']}" for row in models if "failure" in row))
    lines += _listed(
        "Counted differently",
        (
            f"{_name(row)}: {row['macs'] / 1e6:,.4g} M here, {row['counted'] / 1e6:,.4g} M there"
            for row in captured
            if row["counted"] is not None and not _agrees(row)
        ),
    )
    lines += _listed(
        "Without a cost rule",
        (
            f"{_name(row)}: {row['coverage']:.1%} covered; without: {', '.join(row['missing'])}"
            for row in captured
            if row["coverage"] < 1
        ),
    )
    lines += _listed("The node suite", _suite(by_family[families.SUITE]))
    lines += ["", "## Every model", "", "| family | model | GMAC | counted | coverage | operators | seconds |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    for row in captured:
        theirs = f"{row['counted'] / 1e9:.4g}" if row["counted"] is not None else ""
        lines.append(
            f"| {row['family']} | {row['model']} | {row['macs'] / 1e9:.4g} | {theirs} | {row['coverage']:.1%} "
            f"| {row['operators']} | {row['seconds']} |"
        )
    return "\n".join(lines) + "\n"


def _merge_pages(known: str, page: str, families_tried: set[str]) -> str:
    """Return the known page with the families that were tried now, whose earlier lines go, and the configurations."""
    old, new = _sections(known), _sections(page)
    begins = tuple(f"{mark}{family}{end}" for family in families_tried for mark, end in (("- ", " "), ("| ", " |")))
    merged = {name: [line for line in lines if not line.startswith(begins)] for name, lines in old.items()}
    for name, lines in new.items():
        merged.setdefault(name, []).extend(line for line in lines if line.startswith(begins))
    head = merged["# Models tried"]
    title = next(place for place, line in enumerate(head) if line.startswith("Written by"))
    listed = ", ".join(f'"{family}"' for family in sorted(families_tried))
    head[title] = head[title].replace(
        ". Random weights", f"; on {datetime.now(UTC):%Y-%m-%d} also {listed}. Random weights", 1
    )
    last = [line for line in head if line.startswith((f"| {families.SUITE} ", "| **all models**"))]
    rows = [line for line in head if re.match(r"\| .* \| \d+ \|", line) and line not in last]
    counts = [[int(cell) for cell in line.split("|")[2:9]] for line in rows]
    cells = ["**all models**", *map(sum, zip(*counts, strict=True)), last[-1].split("|")[9].strip()]
    suite = [line for line in last if line.startswith(f"| {families.SUITE} ")]
    text = [line for line in head if line not in rows and line not in last]
    merged["# Models tried"] = [*text, *rows, *suite, "| " + " | ".join(map(str, cells)) + " |"]
    configurations = merged.get("## Configurations of language models", [])
    configurations[:] = [line for line in configurations if not line.startswith("|")] + bench_configurations.lines()
    return "\n\n".join("\n".join((name, "", *_without_blanks(lines))) for name, lines in merged.items()) + "\n"


# Section of the page -> the file beside it that holds its table.
_FILES = {"## Every model": "models-tried.csv", "## Configurations of language models": "configurations-tried.csv"}


def _write_page(path: Path, page: str) -> None:
    """Write the page and, as CSV files beside it, the tables of single models."""
    sections = _sections(page)
    for heading, name in _FILES.items():
        lines = sections.get(heading, [])
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows[:1], *rows[2:]])
        file_access.write(path.with_name(name), [text.getvalue()])
        lines[:] = ["", *(f"{line}\n" for line in lines if line and line[0] not in "|["), f"[{name}]({name})", ""]
    lines = [line for name, text in sections.items() for line in (name, *text)]
    file_access.write(path, ["\n".join(lines).rstrip() + "\n"])


def _read_page(path: Path) -> str:
    """Return the page with the tables of its CSV files."""
    sections = _sections(path.read_text())
    for heading, name in _FILES.items():
        head, *rows = csv.reader(io.StringIO(path.with_name(name).read_text()))
        sections[heading] = [line for line in sections.get(heading, []) if not line.startswith("[")]
        sections[heading] += [f"| {' | '.join(head)} |", f"|---|---|{'--:|' * (len(head) - 2)}"]
        sections[heading] += [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join(line for name, text in sections.items() for line in (name, *text))


def _sections(page: str) -> dict[str, list[str]]:
    """Return the lines of a page under each heading."""
    sections: dict[str, list[str]] = {}
    for line in page.splitlines():
        if line.startswith("#"):
            sections[line] = []
        else:
            sections[list(sections)[-1]].append(line)
    return sections


def _without_blanks(lines: list[str]) -> list[str]:
    """Return the lines with blank ones only between text and a table."""
    lines = [line for line in lines if line]
    starts = [place for place, line in enumerate(lines) if line[0] == "|" and (not place or lines[place - 1][0] != "|")]
    return [
        part for place, line in enumerate(lines) for part in (("", line) if place in starts[:1] and place else (line,))
    ]


def _name(row: dict[str, Any]) -> str:
    return f"{row['family']} {row['model']}"


def _listed(heading: str, items: Iterable[str]) -> list[str]:
    """A section, where there is something to say in it."""
    listed = [f"- {item}" for item in items]
    return ["", f"## {heading}", "", *listed] if listed else []


def _suite(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the operators of the node suite without a cost and the refusals, each reason with its models."""
    why: dict[str, list[str]] = {}
    for row in rows:
        reason = row["failure"].partition(".onnx")[2].lstrip(": ") if "failure" in row else ""
        for one in [reason] if reason else [f"no cost rule for {name}" for name in row["missing"]]:
            why.setdefault(one, []).append(row["model"].removeprefix("test_"))
    for reason, of in sorted(why.items(), key=lambda entry: -len(entry[1])):
        yield f"{len(of)} x {reason} ({', '.join(of[:_SHOWN])}{', ..' if len(of) > _SHOWN else ''})"


if __name__ == "__main__":
    main()
