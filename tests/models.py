"""The models that tests share, each loaded once: to make the graph of a language model takes a third of a second."""

from functools import cache

from analysis.model import store
from analysis.model.ir.workload import Workload


@cache
def load_once(name: str) -> Workload:
    """Return the model of a name. It is shared: do not change it."""
    return store.load(name)
