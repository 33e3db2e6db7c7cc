"""`python -m analysis.capture SPEC` answers on standard output, as analysis/model/process/answering.py does.

`python -m analysis.capture --all --out FOLDER` writes the captures of torchvision that ship with the package,
`python -m analysis.capture --out FOLDER diffusers:unet_sd15 ..` those of models of libraries.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec

from analysis.model import store
from analysis.model.ir.workload import Workload, encode
from analysis.model.model_errors import ModelSpecError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef, refer
from analysis.model.names.targets import Target
from analysis.model.process.answering import answer, one_line
from analysis.model.reading_budget import Progress
from hardware import file_access


def main() -> int:
    """Capture what the arguments name. Return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}")
    parser.add_argument("spec", nargs="*", help="model or building block")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--all", action="store_true", help="everything that ships with the package")
    parser.add_argument("--out", type=Path, help="folder for the packed captures")
    options = parser.parse_args()
    if options.out is not None:
        return _write(options.spec, options.all, options.image_size, options.out)
    return answer(lambda progress: encode(_capture(refer(options.spec[0], options.image_size), progress)))


def _capture(ref: ModelRef, progress: Progress) -> Workload:
    """Return the workload of a reference. The imports take seconds and come after the request is checked."""
    if isinstance(ref, Target):
        progress("import", 0.0)
        from analysis.capture.user_model import capture_target

        return capture_target(ref, progress)
    spec = _spec(ref)
    progress("import", 0.0)
    from analysis.capture.torchvision_models import capture

    return capture(spec, progress)


def _spec(ref: ModelRef) -> zoo.Spec:
    if isinstance(ref, zoo.Spec):
        return ref
    raise ModelSpecError(f"{ref} is no model that is captured by name")


def _write(texts: list[str], everything: bool, image_size: int | None, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for ref in _shipped() if everything else [refer(text, image_size) for text in texts]:
        start = time.perf_counter()
        try:
            name, workload = _packed(ref)
        except Exception as error:
            failed = True
            print(f"{ref} {ref.image_size}: {one_line(error)}", file=sys.stderr)
            continue
        path = folder / name
        file_access.write(path, [store.pack(workload)])
        print(f"{name}  {path.stat().st_size} bytes  {time.perf_counter() - start:.2f} s", flush=True)
    return int(failed)


def _packed(ref: ModelRef) -> tuple[str, Workload]:
    """Return the name of the file and the workload that ship: of a library's model its version, no path of ours."""
    workload = _capture(ref, lambda phase, fraction: None)
    if not isinstance(ref, Target):
        return _spec(ref).capture_name, workload
    kept = {key.removeprefix(store.PACKAGE): mark for key, mark in workload.versions.items()}
    versions = {key: mark for key, mark in kept.items() if key in ("torch", ref.path)}
    return targets.shipped_at(ref).name, msgspec.structs.replace(workload, origin=ref.path, versions=versions)


def _shipped() -> list[zoo.Spec]:
    """Blocks with default parameters (gemm needs no capture) and every model at each published crop size."""
    blocks = [zoo.spec(name) for name in zoo.BLOCKS if name != "gemm"]
    models = [info for info in zoo.models() if info.family != "quantized"]
    return blocks + [zoo.resize(zoo.spec(info.name), size) for info in models for size in zoo.crop_sizes(info)]


if __name__ == "__main__":
    sys.exit(main())
