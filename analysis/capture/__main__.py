"""`python -m analysis.capture SPEC` answers on standard output: one JSON object per line for progress, the
last one with the length of the workload that follows as bytes, or an error.

`python -m analysis.capture --all --out FOLDER` writes the captures that ship with the package.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from analysis.workload import store, zoo
from analysis.workload.errors import ModelError
from analysis.workload.workload import encode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m analysis.capture")
    parser.add_argument("spec", nargs="*", help="model or building block")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--all", action="store_true", help="everything that ships with the package")
    parser.add_argument("--out", type=Path, help="folder for the packed captures")
    parser.add_argument("--watch", action="store_true", help="end when standard input closes")
    options = parser.parse_args()
    if options.out is not None:
        return _write(options.spec, options.all, options.image_size, options.out)
    return _serve(options.spec[0], options.image_size, options.watch)


def _serve(text: str, image_size: int | None, watch: bool) -> int:
    """One capture over the pipe. Whatever else prints goes to standard error."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if watch:
        threading.Thread(target=_end_with_parent, daemon=True).start()

    def progress(phase: str, fraction: float) -> None:
        _line(pipe, {"phase": phase, "fraction": fraction})

    try:
        spec, size = zoo.resolve(text, image_size)
        progress("import", 0.0)
        from .named import capture  # imports torch: seconds

        data = encode(capture(spec, size, progress))
    except ModelError as error:
        _line(pipe, {"error": str(error)})
        return 2
    except Exception as error:
        _line(pipe, {"error": _one_line(error)})
        return 1
    _line(pipe, {"bytes": len(data)})
    pipe.write(data)
    pipe.flush()
    # Interpreter shutdown with torch loaded takes a second that nobody needs to wait for.
    os._exit(0)


def _line(pipe: BinaryIO, message: dict[str, Any]) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def _end_with_parent() -> None:
    """The parent holds the other end of standard input; its death closes it."""
    while os.read(0, 4096):
        pass
    os._exit(3)


def _one_line(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:300]


def _write(texts: list[str], everything: bool, image_size: int | None, folder: Path) -> int:
    from .named import capture

    folder.mkdir(parents=True, exist_ok=True)
    todo = _shipped() if everything else [zoo.resolve(text, image_size) for text in texts]
    failed = 0
    for spec, size in todo:
        start = time.perf_counter()
        try:
            workload = capture(spec, size)
        except Exception as error:
            failed += 1
            print(f"{spec} {size}: {_one_line(error)}", file=sys.stderr)
            continue
        path = folder / store.shipped_name(spec, size)
        path.write_bytes(store.pack(workload))
        print(f"{path.name}  {path.stat().st_size} bytes  {time.perf_counter() - start:.2f} s", flush=True)
    return 1 if failed else 0


def _shipped() -> list[tuple[zoo.Spec, int | None]]:
    """Blocks with default parameters (gemm needs no capture) and every model at each published crop size."""
    found: list[tuple[zoo.Spec, int | None]] = [zoo.resolve(name) for name in zoo.BLOCKS if name != "gemm"]
    for info in zoo.models():
        if info.family != "quantized":
            found.extend((zoo.parse(info.name), size) for size in zoo.crop_sizes(info))
    return found


if __name__ == "__main__":
    sys.exit(main())
