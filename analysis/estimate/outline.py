"""The outline of a model: the hierarchy of its modules with repeats merged, or its operators by subgraph or kind.

Consecutive blocks with the same name but for a number, and with at least half of their layers in common, are one
branch, merged name by name: `layer3.0-5.conv2` is six convolutions. Blocks that contain repeats themselves stay apart
unless their layers are equal. A branch named in `expanded` shows its blocks one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.operator_facts import Partition, partition
from analysis.model.ir.workload import Ints, Workload
from hardware.base.records import memoize

BYS = ("module", "subgraph", "kind")
KIND = "kind:"
HOST = "host:step"  # the key of the work of the host between kernels
HOST_NAMES = {"language": "host: scheduler and sampling"}
# The parts of an attention operator, in the order of its work: the end of the key, the name and the kind.
PARTS = (("qk", "part: QK^T", "matmul"), ("softmax", "part: softmax", "softmax"), ("pv", "part: weighted V", "matmul"))
LARGE = 0.5  # share of the model above which a branch is shown by its parts
ALIKE = 0.5  # share of the layers of two blocks that both must have to be merged
_NUMBERED = re.compile(r"(.*?)(\d+)")
_RANGE = re.compile(r"(.*?)(\d+)-(\d+)")


class Branch(msgspec.Struct, frozen=True):
    """A node of the outline. `members` are its operators, `count` is the number of blocks, subgraphs or operators
    merged in it. `kind` is model, group, subgraph, operator, host or part; `type` names the kinds of operators in it. A
    part is entry `part` of PARTS of each of its members."""

    key: str
    name: str
    kind: str
    members: Ints
    type: str
    count: int = 1
    children: tuple[Branch, ...] = ()
    part: int = 0

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Branch]]:
        """Yield the branch and all below it in order, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def divide(self, share: Callable[[Branch], float]) -> Iterator[Branch]:
        """Yield the branches below. A branch that is LARGE and has blocks in it is replaced by its parts."""
        for child in self.children:
            has_blocks = any(part.kind == "group" for part in child.children)
            yield from child.divide(share) if share(child) > LARGE and has_blocks else (child,)

    @property
    def counted_name(self) -> str:
        """The name with the number of blocks."""
        return f"{self.name} ×{self.count}" if self.count > 1 else self.name


def covers(pattern: str, path: str) -> bool:
    """Return True if a node with this key holds the operator with that id: `layer3.0-5.conv2` holds
    `layer3.4.conv2/relu`."""
    prefix, slash, leaf = pattern.partition("/")
    subgraph, _, operator = path.partition("/")
    parts, segments = prefix.split("."), subgraph.split(".")
    if len(parts) > len(segments) or not all(map(_is_of, parts, segments)):
        return False
    return not slash or (len(parts) == len(segments) and leaf in (operator, _short(subgraph, operator)))


def _is_of(part: str, name: str) -> bool:
    """Return True if a word of a key matches a name: the same word, or a range (`0-5`) that includes its number."""
    if part == name:
        return True
    wanted, here = _RANGE.fullmatch(part), _NUMBERED.fullmatch(name)
    if wanted is None or here is None or wanted[1] != here[1]:
        return False
    return int(wanted[2]) <= int(here[2]) <= int(wanted[3])


def _short(subgraph: str, operator: str) -> str:
    """Return the name of an operator in its subgraph: its last word where its path begins in the same block
    (`relu` of `layer1.0.relu` in `layer1.0.conv2`)."""
    is_absolute = "." in subgraph and operator.startswith(subgraph.partition(".")[0] + ".")
    return operator.rpartition(".")[2] if is_absolute else operator


@memoize()
def members(result: Estimate, key: str) -> Ints | None:
    """Return the operators below a branch; None for an unknown key."""
    merged = _members_by_key(result.workload)
    if key in merged:
        return merged[key]
    if key == HOST:
        _, host = divide_host_work(result)
        return None if host is None else np.flatnonzero(host.run.latency_s).astype(np.int32)
    whole, _, part = key.rpartition("/")
    if part in (ending for ending, *_ in PARTS) and (found := members(result, whole)) is not None:
        return found
    kinds = result.workload.operators.kind
    if key.startswith(KIND):
        chosen = [i for i, kind in enumerate(kinds) if kind == key.removeprefix(KIND)]
    else:
        ids = result.partition.operator_id
        chosen = [i for i, path in enumerate(ids) if covers(key, path)]
    if not chosen:
        return None
    return np.array(chosen, dtype=np.int32)


@memoize(shared=True)
def _members_by_key(workload: Workload) -> dict[str, Ints]:
    return {branch.key: branch.members for _, branch in _outline(workload, True, ()).walk()}


def outline(result: Estimate, by: str, expanded: tuple[str, ...] = ()) -> Branch:
    """Return the model by module, subgraph or kind of operator, followed by the host's work."""
    root = _by_kind(result.workload, expanded) if by == "kind" else _outline(result.workload, by == "module", expanded)
    name = result.workload.name  # workloads that share memos, a request and a load, have names of their own
    return msgspec.structs.replace(root, name=name, children=(*root.children, *host_branches(result)))


def host_branches(result: Estimate) -> tuple[Branch, ...]:
    """Return the branch of the host's work as a tuple, empty without such work."""
    work = members(result, HOST)
    name = HOST_NAMES.get(result.workload.work, "host: start of a run")
    return () if work is None else (Branch(HOST, name, "host", work, "host"),)


@memoize(shared=True, keep=8)
def _outline(workload: Workload, by_module: bool, expanded: tuple[str, ...]) -> Branch:
    builder = _OutlineBuilder(workload, partition(workload), expanded)
    if not by_module:
        return builder.model(builder.subgraph([s], path, path) for s, path in enumerate(builder.parts.id))
    root = _Module("")
    for s, path in enumerate(builder.parts.id):
        root.add(path.split("."), s)
    root.prepare([workload.operators.kind[i] for i in builder.parts.head.tolist()])
    return builder.model(builder.inside([root], ""))


def modules(workload: Workload) -> Branch:
    """Return the model by module, repeats merged, before it is run anywhere."""
    return _outline(workload, True, ())


@memoize(shared=True, keep=8)
def _by_kind(workload: Workload, expanded: tuple[str, ...]) -> Branch:
    builder = _OutlineBuilder(workload, partition(workload), expanded)
    kinds: dict[str, list[Branch]] = {}
    for branch in _operators(_outline(workload, True, expanded)):
        node = msgspec.structs.replace(branch, name=_full_name(branch.key))
        kinds.setdefault(workload.operators.kind[int(branch.members[0])], []).append(node)
    return builder.model(
        Branch(KIND + kind, kind, "group", _all_members(operators), kind, children=tuple(operators))
        for kind, operators in kinds.items()
    )


def _operators(branch: Branch) -> Iterator[Branch]:
    """Yield the operators of an outline; a subgraph of one operator counts as one."""
    inside = [child for child in branch.children if child.kind != "part"]
    if branch.kind == "operator" or (branch.kind == "subgraph" and not inside):
        yield branch
    for child in inside:
        yield from _operators(child)


def attention_parts(key: str, those: Ints, count: int = 1) -> tuple[Branch, ...]:
    """Return the parts of attention operators."""
    return tuple(
        Branch(f"{key}/{ending}", name, "part", those, kind, count, part=place)
        for place, (ending, name, kind) in enumerate(PARTS)
    )


def _full_name(key: str) -> str:
    """Return an operator's name outside its subgraph: its key, or the subgraph alone if both have the same name."""
    subgraph, _, leaf = key.partition("/")
    return subgraph if subgraph.rpartition(".")[2] == leaf else key


def _kind_name(kind: str) -> str:
    """Return a kind as it is written after a number: `1.0 depthwise`."""
    return kind.removesuffix("_conv")


def _all_members(branches: Iterable[Branch]) -> Ints:
    operators: Ints = np.sort(np.concatenate([branch.members for branch in branches]))
    return operators


class _Module:
    """A module of the hierarchy. `own` are the subgraphs with exactly its path; `leaves` are the relative paths below
    it, each with the kind of operator that heads the subgraph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[str, _Module] = {}
        self.own: list[int] = []
        self.leaves: frozenset[str] = frozenset()
        self.has_repeats = False

    def add(self, path: list[str], subgraph: int) -> None:
        """Add a subgraph at a relative path."""
        if path:
            self.children.setdefault(path[0], _Module(path[0])).add(path[1:], subgraph)
        else:
            self.own.append(subgraph)

    def prepare(self, heads: list[str]) -> None:
        """Find leaves and repeats of all modules below; `heads` are the kinds that head subgraphs."""
        for child in self.children.values():
            child.prepare(heads)
        names = [f"{name}.{leaf}" for name, child in self.children.items() for leaf in child.leaves]
        self.leaves = frozenset([*names, *(heads[s] for s in self.own)])
        runs = _runs(list(self.children.values()))
        self.has_repeats = any(len(run) > 1 or run[0].has_repeats for run in runs)


def _runs(modules: list[_Module]) -> list[list[_Module]]:
    runs: list[list[_Module]] = []
    for module in modules:
        if runs and _repeats(runs[-1][-1], module):
            runs[-1].append(module)
        else:
            runs.append([module])
    return runs


def _repeats(before: _Module, module: _Module) -> bool:
    a, b = _NUMBERED.fullmatch(before.name), _NUMBERED.fullmatch(module.name)
    if a is None or b is None or a[1] != b[1] or int(b[2]) != int(a[2]) + 1:
        return False
    if min(len(before.leaves), len(module.leaves)) < 2:  # a block holds several layers
        return False
    if before.has_repeats or module.has_repeats:
        return before.leaves == module.leaves and a[1] == ""
    return len(before.leaves & module.leaves) >= ALIKE * len(before.leaves | module.leaves)


class _OutlineBuilder:
    """Make the branches of one model."""

    def __init__(self, workload: Workload, parts: Partition, expanded: Collection[str]) -> None:
        self.workload, self.parts, self.expanded = workload, parts, expanded

    def model(self, children: Iterable[Branch]) -> Branch:
        """Return the root."""
        every = np.arange(self.workload.n_operators, dtype=np.int32)
        return Branch("", self.workload.name, "model", every, self.workload.family, children=tuple(children))

    def inside(self, modules: list[_Module], key: str) -> Iterator[Branch]:
        """Yield the branches inside modules of one name, merged name by name."""
        by_name: dict[str, list[_Module]] = {}
        for module in modules:
            for child in module.children.values():
                by_name.setdefault(child.name, []).append(child)
        for run in _runs([those[0] for those in by_name.values()]):
            those = [module for each in run for module in by_name[each.name]]
            yield self.module(those, _join_key(key, _run_name(run)), _run_name(run), len(run) > 1)

    def module(self, modules: list[_Module], key: str, name: str, is_run: bool) -> Branch:
        """Return the branch of modules of one name, or of consecutive repeats. A module that only wraps another shares
        a branch with it, named `outer.inner`."""
        inner, own, count = key, [s for module in modules for s in module.own], len(modules)
        while not own and not is_run:
            named = {child.name: child for module in modules for child in module.children.values()}
            runs = _runs(list(named.values()))
            if len(runs) != 1:
                break
            step = _run_name(runs[0])
            modules = [child for module in modules for child in module.children.values()]
            inner, own = _join_key(inner, step), [s for module in modules for s in module.own]
            if len(runs[0]) > 1:  # a list of blocks is one branch with them
                is_run, count = True, len(modules)
            else:
                key, name = inner, f"{name}.{step}"
        if own and not any(module.children for module in modules):
            return self.subgraph(own, key, name)
        if is_run and key in self.expanded:
            ending = name.rpartition(".")[2]
            children = [
                self.module([m], _join_key(inner.rpartition(".")[0], m.name), f"{ending}.{m.name}", False)
                for m in modules
            ]
        else:
            children = list(self.inside(modules, inner))
        children += [self.subgraph(own, inner, name.rpartition(".")[2])] if own else []
        return Branch(key, name, "group", _all_members(children), "", count, tuple(children))

    def subgraph(self, those: list[int], key: str, name: str) -> Branch:
        """Return the branch of subgraphs of one name, their operators merged name by name."""
        parts, kinds = self.parts, self.workload.operators.kind
        key = parts.id[those[0]] if len(those) == 1 else key
        by_name: dict[str, list[int]] = {}
        for s in those:
            for i in parts.members[s]:
                short = _short(parts.id[s], parts.operator_id[i].partition("/")[2])
                by_name.setdefault(short, []).append(i)
        head = kinds[int(parts.head[those[0]])]
        ending = name.rpartition(".")[2]
        name = f"{name} {_kind_name(head)}" if ending.isdigit() else name
        members = np.array(sorted(i for s in those for i in parts.members[s]), dtype=np.int32)
        children = tuple(
            self._operator(key, short, those_i) for short, those_i in by_name.items() if len(by_name) > 1
        ) or self._parts(key, members)
        return Branch(key, name, "subgraph", members, parts.kind[those[0]], len(those), children)

    def _operator(self, subgraph: str, short: str, those: list[int]) -> Branch:
        kind = self.workload.operators.kind[those[0]]
        key = self.parts.operator_id[those[0]] if len(those) == 1 else f"{subgraph}/{short}"
        name = f"{short} {_kind_name(kind)}" if short.isdigit() else short
        members = np.array(those, dtype=np.int32)
        return Branch(key, name, "operator", members, kind, len(those), self._parts(key, members))

    def _parts(self, key: str, members: Ints) -> tuple[Branch, ...]:
        """Return the parts of attention operators of one name; empty for other operators."""
        is_attention = self.workload.operators.kind[int(members[0])] == "attention"
        return attention_parts(key, members, len(members)) if is_attention else ()


def _join_key(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _run_name(run: list[_Module]) -> str:
    if len(run) == 1:
        return run[0].name
    match = _NUMBERED.fullmatch(run[-1].name)
    assert match is not None
    return f"{run[0].name}-{match[2]}"
