"""The page of licences: packages as their metadata states them, data by where it is from."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "analysis" / "model" / "captures"
# Libraries whose models ship as captures: operators and sizes of their layers, no code and no weights.
LIBRARIES = {
    "torchvision": "BSD-3-Clause", "diffusers": "Apache-2.0", "transformers": "Apache-2.0", "mlperf": "Apache-2.0",
    "ultralytics": "AGPL-3.0",
}  # fmt: skip


def markdown() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages: set[str] = set()
    for requirement in project["dependencies"]:
        _add(requirement, packages)
    optional = sorted(_name(each) for each in project["optional-dependencies"]["torch"])
    return "\n".join(
        [
            "# Licences",
            "",
            "hwexplorer is under the [MIT licence](../LICENSE). `python -m tests.reference` makes this page.",
            "",
            "## Packages that it needs",
            "",
            "| package | licence |",
            "|---|---|",
            *(f"| {name} | {_licence(name)} |" for name in sorted(packages)),
            *(f"| {name} (extra `torch`, with what it needs itself) | {_licence(name)} |" for name in optional),
            "| nvidia-ml-py (extra `nvml`) | BSD |",
            "",
            "## Data in the package",
            "",
            "| data | from | licence |",
            "|---|---|---|",
            "| devices, prices (`hardware/`) | data sheets and papers; each value names its source | facts |",
            "| sizes of language models (`analysis/model/transformer/`) | their published configurations | facts |",
            *(
                f"| captures (`analysis/model/captures/`): operators, sizes; no code or weights | {name} | {licence} |"
                for name, licence in sorted({_library(path.name) for path in CAPTURES.iterdir()})
            ),
            "| bands (`trust.json`, `load_trust.json`) | fitted here to the measurements below | MIT |",
            "",
            "Measurements stand in the repository and the source distribution alone; "
            "[their page](../analysis/validation/measured/README.md) names each source with its licence.",
            "",
        ]
    )


def _library(capture: str) -> tuple[str, str]:
    library = capture.partition("-")[0]
    return next((each for each in LIBRARIES.items() if each[0] == library), ("torchvision", LIBRARIES["torchvision"]))


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]


def _add(requirement: str, names: set[str]) -> None:
    """Add a package and what it needs, without extras."""
    name = _name(requirement)
    if name not in names:
        names.add(name)
        for other in requires(name) or ():
            if "extra ==" not in other:
                _add(other, names)


def _licence(package: str) -> str:
    """Return the licence that a package's metadata states, the first of several."""
    stated = metadata(package)
    classes = [word.rpartition(" :: ")[2] for word in stated.get_all("Classifier", ()) if word.startswith("License")]
    first, _, others = str(stated["License-Expression"] or stated["License"] or classes[0]).partition(" AND ")
    return first.removesuffix(" License") + " and others" * bool(others)
