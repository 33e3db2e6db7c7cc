"""`python -m analysis.capture SPEC` answers on standard output, as analysis/workload/answer.py does.

`python -m analysis.capture --all --out FOLDER` writes the captures that ship with the package.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from analysis.workload import store, targets, zoo
from analysis.workload.answer import Progress, answer, one_line
from analysis.workload.workload import Workload, encode
from hardware import files


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}")
    parser.add_argument("spec", nargs="*", help="model or building block")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--all", action="store_true", help="everything that ships with the package")
    parser.add_argument("--out", type=Path, help="folder for the packed captures")
    options = parser.parse_args()
    if options.out is not None:
        return _write(options.spec, options.all, options.image_size, options.out)
    return answer(lambda progress: encode(_captured(options.spec[0], options.image_size, progress)))


def _captured(text: str, image_size: int | None, progress: Progress) -> Workload:
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
            print(f"{spec} {size}: {one_line(error)}", file=sys.stderr)
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
