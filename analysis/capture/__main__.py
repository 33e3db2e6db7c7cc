"""`python -m analysis.capture SPEC` answers on standard output: one JSON object per line for progress, the
last one with the length of the workload that follows as bytes, or an error.

`python -m analysis.capture --all --out FOLDER` writes the captures that ship with the package.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from analysis.workload import store, targets, zoo
from analysis.workload.errors import ModelError
from analysis.workload.workload import Workload, encode
from hardware import files


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m analysis.capture")
    parser.add_argument("spec", nargs="*", help="model or building block")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--all", action="store_true", help="everything that ships with the package")
    parser.add_argument("--out", type=Path, help="folder for the packed captures")
    parser.add_argument("--watch", action="store_true", help="end when standard input closes")
    parser.add_argument("--memory", type=int, metavar="BYTES", help="fail beyond this much memory")
    options = parser.parse_args()
    if options.out is not None:
        return _write(options.spec, options.all, options.image_size, options.out)
    if options.memory is not None:
        limit_memory(options.memory)
    return _serve(options.spec[0], options.image_size, options.watch)


def limit_memory(size: int) -> None:
    """Allocations beyond `size` bytes fail, and a crash leaves no core file, where the system can do that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, limit in ((resource.RLIMIT_DATA, size), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit if hard < 0 else min(limit, hard), hard))


def _serve(text: str, image_size: int | None, watch: bool) -> int:
    """One capture over the pipe. Whatever else prints goes to standard error; standard input is empty."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if watch:
        parent = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()

    def progress(phase: str, fraction: float) -> None:
        _line(pipe, {"phase": phase, "fraction": fraction})

    gc.disable()  # the process ends after one capture; a fifth of its time went into collecting
    try:
        data = encode(_captured(text, image_size, progress))
    except ModelError as error:
        _line(pipe, {"error": str(error)})
        return 2
    except BaseException as error:  # a model may call sys.exit
        _line(pipe, {"error": _one_line(error)})
        return 1
    _line(pipe, {"bytes": len(data)})
    pipe.write(data)
    pipe.flush()
    # Interpreter shutdown with torch loaded takes a second that nobody needs to wait for.
    os._exit(0)


def _captured(text: str, image_size: int | None, progress: Callable[[str, float], None]) -> Workload:
    """The capture of a word. The imports take seconds and come after the request is checked."""
    target = targets.parse(text)
    if target is not None:
        progress("import", 0.0)
        from .user import capture_target

        return capture_target(target, progress)
    spec, size = zoo.resolve(text, image_size)
    progress("import", 0.0)
    from .named import capture

    return capture(spec, size, progress)


def _line(pipe: BinaryIO, message: dict[str, Any]) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def _end_with_parent(pipe: int) -> None:
    """The parent holds the other end of what was standard input; its death closes it."""
    while os.read(pipe, 4096):
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
        files.write(path, [store.pack(workload)])
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
