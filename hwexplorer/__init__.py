"""hwexplorer: what neural networks cost on hardware, and why, in a terminal and from Python.

    import hwexplorer as hx
    hx.compare("resnet50", on=["h100_sxm", "tpu_v4"], batch=8, precision="fp16")

Every report of the command line is a function here: its words and options are the arguments, a list stands where the
command line has commas, and what comes back is the document of its JSON, which shows itself as text and in a notebook.
`hx.capture(module, example_inputs)` makes a workload of a torch module, `hx.model(..)` keeps a model with a scenario;
both go wherever a name of a model does. Nothing of torch or of the screen is imported before it is needed.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Everything is loaded when it is asked for: a terminal opens without it."""
    if name == "capture":
        from analysis import capture

        return capture
    # `from hwexplorer import state` asks here first: what is a module is none of ours, and must load nothing else.
    if not name.startswith("_") and PathFinder.find_spec(f"{__name__}.{name}", __path__) is None:
        from hwexplorer import api

        if name in api.NAMES:
            return getattr(api, name)
        if api.is_function(name):
            return api.function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from hwexplorer import api, registry

    return sorted({"capture", "__version__", *api.NAMES, *filter(api.is_function, registry.names())})
