"""hwexplorer: what neural networks cost on hardware, and why, in a terminal and from Python.

    import hwexplorer as hx
    hx.compare("resnet50", on=["h100_sxm", "tpu_v4"], batch=8, precision="fp16")

Every verb of the command line that prints a document is a function here (hwexplorer/api.py); a section is its first
word: `hx.show("memory", "resnet50")`. A result is the document
of its JSON, and displays as text or in a notebook. `hx.capture(module, example_inputs)` makes a workload of a
torch module, which can replace the name of a model. torch and the screen are imported only when they are needed.
"""

from importlib.machinery import PathFinder
from typing import Any

from hwexplorer.version import VERSION

__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Load a function on first use: the screen opens without any."""
    if name == "capture":
        from analysis.capture.module_at_hand import capture

        return capture
    # `from hwexplorer import state` also calls this: importing a module must load nothing else.
    if not name.startswith("_") and PathFinder.find_spec(f"{__name__}.{name}", __path__) is None:
        from hwexplorer import api

        if name in api.__all__:
            return getattr(api, name)
        if api.is_function(name):
            return api.function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from hwexplorer import api, registry

    return sorted({"capture", "__version__", *api.__all__, *filter(api.is_function, registry.verbs())})
