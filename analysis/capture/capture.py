"""Capture a model by its reference: the work of the subprocess that analysis/model/process/child_job.py starts."""

from analysis.model.ir.workload import Workload, encode
from analysis.model.model_errors import ModelSpecError
from analysis.model.names import zoo
from analysis.model.names.model_ref import ModelRef, refer
from analysis.model.names.targets import Target
from analysis.model.reading_budget import Progress


def encoded_capture(text: str, image_size: str, progress: Progress) -> bytes:
    """Return the encoded workload of the model with this name; `image_size` is '' for its own."""
    return encode(capture(refer(text, int(image_size) if image_size else None), progress))


def capture(ref: ModelRef, progress: Progress) -> Workload:
    """Return the workload of a reference. The imports take seconds, so they come after the request is checked."""
    progress("import", 0.0)
    if isinstance(ref, Target):
        from analysis.capture.user_model import capture_target

        return capture_target(ref, progress)
    if not isinstance(ref, zoo.Spec):
        raise ModelSpecError(f"{ref} is not a model that is captured by name")
    from analysis.capture import torchvision_models

    return torchvision_models.capture(ref, progress)
