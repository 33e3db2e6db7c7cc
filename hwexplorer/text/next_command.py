"""Next steps that the analysis suggests, as shell commands."""

from shlex import join

from analysis.explore.comparison import NextStep
from hwexplorer.settings import defaults_of


def command(step: NextStep) -> str:
    """Return the complete shell command of a next step. Options with default values are left out."""
    words = ["hwexplorer", *step.report.split(), *step.words]
    words += step.devices if step.report == "why" else ("--on", ",".join(step.devices))
    default = defaults_of(step.words[0])
    for name in ("batch", "precision", "execution", "layout", "prices"):
        value = getattr(step.scenario, name)
        if value != default[name]:
            words += [f"--{name}", str(value)]
    if step.image_size is not None:
        words += ["--image-size", str(step.image_size)]
    return join(words)
