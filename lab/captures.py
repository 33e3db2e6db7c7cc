"""The captures that ship: `python -m lab.captures FOLDER` writes those of torchvision, two with the heads that only
training has, `python -m lab.captures FOLDER diffusers:unet_sd15 ..` those of models of libraries. By hand; minutes,
needs torch."""

import lzma
import sys
import time
from pathlib import Path
from unittest.mock import patch

import msgspec

from analysis.capture import torchvision_models
from analysis.capture.capture import capture
from analysis.capture.torch_settings import import_torchvision
from analysis.model import store
from analysis.model.ir.workload import Workload, encode
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef, refer
from analysis.model.names.targets import Target
from analysis.model.process.child import one_line
from analysis.model.training.training_request import Step
from hardware.base import file_access


def crop_sizes(info: zoo.ModelInfo) -> list[int]:
    """Return every crop size that the published weights use, the default first."""
    sizes = [info.image_size, *(item.crop_size for item in info.weights)]
    return list(dict.fromkeys(size for size in sizes if size is not None))


def write(texts: list[str], folder: Path) -> int:
    """Write the captures of models, by default of all that ship, to a folder. Return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for ref in map(refer, texts) if texts else _shipped():
        start = time.perf_counter()
        try:
            assert isinstance(ref, zoo.Spec | Target | Step)
            name, workload = _packed(ref)
        except Exception as error:
            failed = True
            print(f"{ref} {ref.image_size}: {one_line(error)}", file=sys.stderr)
            continue
        path = folder / name
        packed = lzma.compress(encode(workload), check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME)
        file_access.write(path, [packed])
        print(f"{name}  {path.stat().st_size} bytes  {time.perf_counter() - start:.2f} s", flush=True)
    return int(failed)


def _with_heads(name: str) -> Workload:
    """Return the forward pass of a torchvision model in training, with its auxiliary heads."""

    def _make(*_: object) -> object:
        module = import_torchvision().models.get_model(name, weights=None, init_weights=False, transform_input=True)
        evaluate = module.eval

        def _evaluate_parts() -> object:
            """Set all parts to evaluation, but not the model itself, which then has its heads."""
            evaluate().training = True
            return module

        module.eval = _evaluate_parts
        return module

    with patch.object(torchvision_models, "_torchvision", _make):
        return torchvision_models.capture(zoo.spec(name))


def _packed(ref: zoo.Spec | Target | Step) -> tuple[str, Workload]:
    """Return the name of the file and the workload that ship: of a library's model its version, no path of ours."""
    if isinstance(ref, Step):
        assert isinstance(ref.model, zoo.Spec)
        return store._shipped_path(ref.model, "-train").name, _with_heads(ref.model.name)
    workload = capture(ref, lambda phase, fraction: None)
    if isinstance(ref, zoo.Spec):
        return store._shipped_path(ref).name, workload
    kept = {key.removeprefix(store.PACKAGE): mark for key, mark in workload.versions.items()}
    versions = {key: mark for key, mark in kept.items() if key in ("torch", ref.path)}
    return targets.shipped_at(ref).name, msgspec.structs.replace(workload, origin=ref.path, versions=versions)


def _shipped() -> list[ModelRef]:
    """Return every model at each published crop size, and those with heads in training."""
    models = [info for info in zoo.models() if info.family != "quantized"]
    sized = (zoo.resize(zoo.spec(info.name), size) for info in models for size in crop_sizes(info))
    return [*sized, refer("googlenet:train"), refer("inception_v3:train")]


if __name__ == "__main__":
    sys.exit(write(sys.argv[2:], Path(sys.argv[1])))
