"""A file of designs, a line each as they are evaluated, so that a search that was interrupted goes on.

A search is a function of its study and seed: started again it asks for the same designs, which are read from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from analysis.annexes.silicon.design_search import Design, DesignStudy, Piece, Runner
from analysis.explore.search.catalogue_sweep import key
from hardware import file_access
from hardware.errors import RequestError


@contextmanager
def keep_designs(run: Runner, study: DesignStudy, path: Path) -> Iterator[Runner]:
    """Yield a runner that evaluates only designs that are not in a file, and appends them. Raises RequestError for a
    file that cannot be used or holds another study."""
    head = json.dumps({"designs of": key(study, study.folders)}).encode() + b"\n"
    try:
        with path.open("a+b", buffering=0) as file:
            if not file_access.lock(file.fileno(), wait=False):
                raise RequestError(f"another search writes {path}")
            file.seek(0)
            known, end = _read(file.read(), head, path)
            file.truncate(end)
            if not end:
                file.write(head)

            def run_missing(pieces: Sequence[Piece]) -> Iterator[list[Design]]:
                new = [(study, tuple(point for point in points if point not in known)) for study, points in pieces]
                made = run([piece for piece in new if piece[1]])
                for (_, points), (_, missing) in zip(pieces, new, strict=True):
                    if missing:
                        designs = next(made)
                        known.update(zip(missing, designs, strict=True))
                        file.write(b"".join(map(_line, designs)))
                    yield [known[point] for point in points]

            yield run_missing
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror or error}") from None


def _line(design: Design) -> bytes:
    return json.dumps(msgspec.to_builtins(design)).encode() + b"\n"


def _read(data: bytes, head: bytes, path: Path) -> tuple[dict[tuple[float, ...], Design], int]:
    """Return the designs of a file by their values, and where its last whole line ends."""
    if data and not data.startswith(head):
        raise RequestError(f"{path} holds no designs of this study, made by this version: name another file")
    end = data.rfind(b"\n") + 1
    designs = (msgspec.convert(json.loads(line), Design) for line in data[len(head) : end].splitlines())
    return {design.values: design for design in designs}, end
