"""`python -m analysis.capture SPEC` writes the workload to standard output, by analysis/model/process/answering.py."""

import argparse
import sys

from analysis.model.ir.workload import Workload, encode
from analysis.model.model_errors import ModelSpecError
from analysis.model.names import zoo
from analysis.model.names.model_ref import ModelRef, refer
from analysis.model.names.targets import Target
from analysis.model.process.answering import answer
from analysis.model.reading_budget import Progress


def main() -> int:
    """Capture the model that the arguments name. Return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}")
    parser.add_argument("spec", help="model or building block")
    parser.add_argument("--image-size", type=int)
    options = parser.parse_args()
    return answer(lambda progress: encode(capture(refer(options.spec, options.image_size), progress)))


def capture(ref: ModelRef, progress: Progress) -> Workload:
    """Return the workload of a reference. The imports take seconds, so they come after the request is checked."""
    if isinstance(ref, Target):
        progress("import", 0.0)
        from analysis.capture.user_model import capture_target

        return capture_target(ref, progress)
    if not isinstance(ref, zoo.Spec):
        raise ModelSpecError(f"{ref} is not a model that is captured by name")
    progress("import", 0.0)
    from analysis.capture import torchvision_models

    return torchvision_models.capture(ref, progress)


if __name__ == "__main__":
    sys.exit(main())
