"""The tree Model -> Subgraph -> Operator: energy, latency and EDP attributed so that every level adds up.

Its outline is the hierarchy of modules with repeats merged, or the operators by subgraph or kind. Consecutive blocks
with the same name but for a number, and with at least half of their layers in common, are one branch, merged name by
name: `layer3.0-5.conv2` is six convolutions. Blocks that contain repeats themselves stay apart unless their layers are
equal. A branch named in `expanded` shows its blocks one by one.

A node's share of the EDP is `(e/E + t/T) / 2`, the Shapley value of the product. `own_edp_js` is the node's own energy
per inference times its own latency. `base_edp_js` is what an operator's part of the work suggests on any device: its
subgraph's EDP by the geometric mean of its shares of arithmetic and operand bytes (of bytes if it has no FLOPs).
`architectural_modifier` is attributed EDP over base: above 1 where an operator pays for a kernel and a round trip of
its own, below 1 where it is hidden in another's. `fusion_benefit_js` is the EDP of a node run operator by operator,
less its EDP with each subgraph run as one kernel.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from analysis.estimate import operator_facts
from analysis.estimate.causes import LIMITS, divide_host_work, limits
from analysis.estimate.estimate import Estimate, ratio
from analysis.estimate.operator_facts import Partition, partition
from analysis.model.ir.workload import Floats, Ints, Workload
from hardware.base.errors import unknown
from hardware.base.records import group_by, memoize
from hardware.demand import READ_WEIGHT, NDArray

BYS = ("module", "subgraph", "kind")
KIND = "kind:"
HOST = "host:step"  # the key of the work of the host between kernels
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
    children: tuple["Branch", ...] = ()
    part: int = 0

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Branch"]]:
        """Yield the branch and all below it in order, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def divide(self, share: Callable[["Branch"], float]) -> Iterator["Branch"]:
        """Yield the branches below. A branch that is LARGE and has blocks in it is replaced by its parts."""
        for child in self.children:
            has_blocks = any(part.kind == "group" for part in child.children)
            yield from child.divide(share) if share(child) > LARGE and has_blocks else (child,)


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
def members_of(result: Estimate, key: str) -> Ints | None:
    """Return the operators below a branch; None for an unknown key."""
    merged = _members_by_key(result.workload)
    if key in merged:
        return merged[key]
    if key == HOST:
        _, host = divide_host_work(result)
        return None if host is None else np.flatnonzero(host.run.latency_s).astype(np.int32)
    whole, _, part = key.rpartition("/")
    if part in (ending for ending, *_ in PARTS) and (found := members_of(result, whole)) is not None:
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


def draw_outline(result: Estimate, by: str, expanded: tuple[str, ...] = ()) -> Branch:
    """Return the model by module, subgraph or kind of operator, followed by the host's work."""
    root = _by_kind(result.workload, expanded) if by == "kind" else _outline(result.workload, by == "module", expanded)
    name = result.workload.name  # workloads that share memos, a request and a load, have names of their own
    return msgspec.structs.replace(root, name=name, children=(*root.children, *host_branches(result)))


def host_branches(result: Estimate) -> tuple[Branch, ...]:
    """Return the branch of the host's work as a tuple, empty without such work."""
    work = members_of(result, HOST)
    return () if work is None else (Branch(HOST, "start of the run", "host", work, "host"),)


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
        subgraph, _, leaf = branch.key.partition("/")  # a subgraph of one operator with its name tells it alone
        node = msgspec.structs.replace(branch, name=subgraph if subgraph.rpartition(".")[2] == leaf else branch.key)
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
        children = (child for module in modules for child in module.children.values())
        by_name = group_by(children, lambda child: child.name)
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


TELLING_WORK = 0.01  # of an even share of the parent's work: a modifier of a smaller node has no meaning


def modifier_or_none(modifier: float) -> float | None:
    """Return a modifier of a TreeLevel for a document: None if it has no meaning (NaN)."""
    return None if math.isnan(modifier) else modifier


class TreeLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of all nodes of one level as columns, shape (k,). `component_j` is (3, k); `cumulative` is the running
    share with the level sorted by share; `transfers` counts activation tensors that cross kernel boundaries; `modifier`
    is NaN where it has no meaning."""

    macs: Floats
    flops: Floats
    bytes: Floats
    dram_bytes: Floats
    transfers: Floats
    latency_s: Floats
    energy_j: Floats
    component_j: Floats
    share: Floats
    cumulative: Floats
    edp_js: Floats
    own_edp_js: Floats
    base_edp_js: Floats
    modifier: Floats
    fusion_benefit_js: Floats
    utilization: Floats


class TreeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an estimate by level. `fused` (n,) marks operators that share a kernel with another; the bounds
    are names per operator and subgraph."""

    estimate: Estimate
    operators: TreeLevel
    subgraphs: TreeLevel
    fused: np.ndarray[tuple[int], np.dtype[np.bool_]]
    operator_bound: tuple[str, ...]
    subgraph_bound: tuple[str, ...]
    fusion_benefit_js: float


@memoize()
def tree(result: Estimate) -> TreeFigures:
    """Return the figures of the tree, computed once per estimate. The fusion benefit takes a second estimate."""
    return _figures(result, result)


@memoize()
def tree_without_host(result: Estimate) -> TreeFigures:
    """Return the figures of a tree in which the host's work has a row, and is not part of other rows."""
    rest, host = divide_host_work(result)
    return tree(result) if host is None else _figures(result, rest)


def _figures(whole: Estimate, result: Estimate) -> TreeFigures:
    """Return the figures of `result`, which is the `whole` or a part of it."""
    parts, run, demand = result.partition, result.run, result.demand
    subgraph, count = parts.subgraph, len(parts.id)
    flow = run.mapping.traffic
    ideal = np.maximum(run.mapping.matrix_ideal_s, run.mapping.vector_ideal_s)
    # Figures of operators that add up to those of their subgraph.
    sums = {
        "macs": demand.macs,
        "flops": demand.flops,
        "bytes": flow.chip_bytes,
        "dram_bytes": flow.dram_bytes,
        "transfers": demand.per_op((demand.transfers.role != READ_WEIGHT).astype(np.float64)),
        "latency_s": run.latency_s,
        "energy_j": run.energy_j,
        "share": shares(run.energy_j, run.latency_s, result),
        "fusion_benefit_js": fusion_benefit(whole),
    }
    component = result.component_energy_j
    operands = operator_facts.operand_bytes(result.workload, result.scenario.batch, result.plan.widths)
    of_subgraphs = {name: parts.total(values) for name, values in sums.items()}
    one_group = np.zeros(count, dtype=np.int32)
    operator_work = work_share(demand.flops, operands, subgraph, count)
    subgraph_work = work_share(of_subgraphs["flops"], parts.total(operands), one_group, 1)
    operators = _level(
        result, sums, component, operator_work, of_subgraphs["share"][subgraph] * operator_work,
        np.bincount(subgraph, minlength=count)[subgraph], np.minimum(ratio(ideal, run.latency_s), 1.0),
    )  # fmt: skip
    subgraphs = _level(
        result, of_subgraphs, np.stack([parts.total(row) for row in component]), subgraph_work, subgraph_work,
        np.full(count, count), ratio(sum_of_kernels(result, run.utilization * run.kernel_s), of_subgraphs["latency_s"]),
    )  # fmt: skip
    per_kernel = np.bincount(demand.kernel, minlength=demand.n_kernels)
    limit, bound_s = limits(result)[demand.kernel], np.zeros((count, len(LIMITS)))
    # Where no operator takes time, each counts the same.
    time_s = np.maximum(divide_host_work(whole)[0].run.latency_s, np.finfo(float).tiny)
    np.add.at(bound_s, (subgraph, limit), time_s)
    return TreeFigures(
        estimate=whole,
        operators=operators,
        subgraphs=subgraphs,
        fused=per_kernel[demand.kernel] > 1,
        operator_bound=tuple(np.array(LIMITS)[limit].tolist()),
        subgraph_bound=tuple(np.array(LIMITS)[bound_s.argmax(axis=1)].tolist()),
        fusion_benefit_js=float(sums["fusion_benefit_js"].sum()),
    )


def _level(
    result: Estimate, sums: dict[str, Floats], component_j: Floats, work: Floats, base_share: Floats,
    siblings: NDArray[np.integer[Any]], utilization: Floats,
) -> TreeLevel:  # fmt: skip
    """Return a level of the tree. `work` (k,) is each node's share of its parent's work, `base_share` its share of the
    model's, and `siblings` the number of nodes that the parent has."""
    modifier = np.where(work * siblings >= TELLING_WORK, ratio(sums["share"], base_share), np.nan)
    return _complete_level(result, sums, component_j, base_share * result.edp_js, modifier, utilization)


def _complete_level(
    result: Estimate, sums: dict[str, Floats], component_j: Floats, base_edp_js: Floats, modifier: Floats, used: Floats
) -> TreeLevel:
    """Return a level: its sums, and the figures that follow from them. `used` is the utilisation of each node."""
    return TreeLevel(
        **sums,
        component_j=component_j,
        cumulative=cumulative_share(sums["share"]),
        edp_js=sums["share"] * result.edp_js,
        own_edp_js=sums["energy_j"] / result.scenario.batch * sums["latency_s"],
        base_edp_js=base_edp_js,
        modifier=modifier,
        utilization=used,
    )


def sum_of_kernels(result: Estimate, values: Floats) -> Floats:
    """Return values of kernels (k,) summed by subgraph, (s,). A kernel counts for its last operator's subgraph."""
    subgraph = np.zeros(result.demand.n_kernels, dtype=np.int64)
    subgraph[result.demand.kernel] = result.partition.subgraph
    return np.bincount(subgraph, values, minlength=len(result.partition.id)).astype(np.float64)


def shares(energy: Floats, latency: Floats, model: Estimate) -> Floats:
    """Return Shapley shares of the model's EDP."""
    return 0.5 * (energy / (model.energy_j or 1.0) + latency / (model.latency_s or 1.0))


def cumulative_share(share: Floats) -> Floats:
    """Return for each node the sum of all shares not smaller than its own; ties, also after rounding, stay in order."""
    order = np.argsort(-share.round(12), kind="stable")
    result = np.empty_like(share)
    result[order] = np.cumsum(share[order])
    return result


def count_making(share: Floats, fraction: float) -> int:
    """Return the smallest number of members whose shares sum to `fraction`."""
    running = np.cumsum(np.sort(share)[::-1])
    return min(int(np.searchsorted(running, fraction - 1e-12)) + 1, len(share)) if len(share) else 0


def work_share(flops: Floats, operands: Floats, group: Ints, count: int) -> Floats:
    """Return each member's share of its group's work: geometric mean of FLOP and byte share, summing to 1 per group.

    A member without FLOPs counts by its bytes; a group without either is shared evenly."""

    def share_in_group(values: Floats) -> Floats:
        """Divide each value by the sum over its group."""
        return ratio(values, np.bincount(group, values, minlength=count)[group].astype(np.float64))

    by_bytes = share_in_group(operands)
    weight = np.where(flops > 0, np.sqrt(share_in_group(flops) * by_bytes), by_bytes)
    size = np.bincount(group, minlength=count)[group]
    total = np.bincount(group, weight, minlength=count)[group].astype(np.float64)
    return ratio(weight, total, 1.0 / size)


@memoize()
def fusion_benefit(result: Estimate) -> Floats:
    """Return the attributed EDP of each operator run separately less its attributed EDP run fused, J s. It is negative
    where fusion costs."""
    other = result.in_mode("fused" if result.execution == "eager" else "eager")
    own_js = shares(result.run.energy_j, result.run.latency_s, result) * result.edp_js
    other_js = shares(other.run.energy_j, other.run.latency_s, other) * other.edp_js
    return own_js - other_js if result.execution == "eager" else other_js - own_js


def sum_over_branches(result: Estimate, branches: Sequence[Branch]) -> Callable[..., Floats]:
    """Return a function that sums values of operators without the host's work, (.., n), over the members of each
    branch, (.., k). It adds the host's own values, (.., n), to the rows of the host and of the model. Parts of
    operators get the share in `weights` (.., 3, n), by default their share of the time."""
    index = np.concatenate([branch.members for branch in branches])
    sizes = np.array([len(branch.members) for branch in branches])
    starts = np.cumsum([0, *sizes[:-1]])
    kind = [branch.kind for branch in branches]
    parts = np.flatnonzero(np.repeat([each == "part" for each in kind], sizes))
    place = np.repeat([branch.part for branch in branches], sizes)[parts]
    is_model, is_host = (np.array([each == what for each in kind]) for what in ("model", "host"))

    def add(values: Floats, host: Floats | None = None, weights: Floats | None = None) -> Floats:
        """Sum figures of operators over each branch."""
        chosen = values.take(index, axis=-1)
        if len(parts):
            chosen[..., parts] *= (part_weights(result) if weights is None else weights)[..., place, index[parts]]
        total: Floats = np.add.reduceat(chosen, starts, axis=-1)
        if is_host.any():
            beside = 0.0 if host is None else host.sum(axis=-1, keepdims=True)
            total = np.where(is_host, beside, total + np.where(is_model, beside, 0.0))
        return total

    return add


@memoize()
def part_weights(result: Estimate) -> Floats:
    """Return the share of each part of attention (PARTS) in its operator's time, (3, n), by what each asks of
    the units or of DRAM. From DRAM the first product reads the keys, and the second the values."""
    mapping, demand = result.run.mapping, result.demand
    products, exponentials = mapping.matrix_s[0] / 2, mapping.vector_s[0]
    on_lanes = ~(products > 0)
    products = np.where(on_lanes, demand.macs, products)
    exponentials = np.where(on_lanes, demand.vector_flops, exponentials)
    read = np.where(on_lanes, 0.0, mapping.dram_s[0] / 2)
    needs = np.stack([np.maximum(products, read), exponentials, np.maximum(products, read)])
    total = needs.sum(axis=0)
    return ratio(needs, total, 1 / len(needs))


def _work_weights(result: Estimate) -> Floats:
    """Return the share of each part of attention in the MACs and FLOPs of its operator, (2, 3, n)."""
    demand = result.demand
    half, none = np.full(demand.n, 0.5), np.zeros(demand.n)
    softmax = ratio(demand.vector_flops, demand.flops)
    product = (1.0 - softmax) / 2
    return np.array([[half, none, half], [product, softmax, product]])


def branch_figures(result: Estimate, branches: Sequence[Branch], add: Callable[..., Floats] | None = None) -> TreeLevel:
    """Return the figures of nodes of an outline, shape (k,): sums over their operators, and figures that follow from
    the sums. One subgraph or operator has the modifier of its own level; `cumulative` runs over all nodes. `add` is the
    result of sum_over_branches, if the caller has it."""
    figures, host = tree_without_host(result), divide_host_work(result)[1]
    subgraphs, operators = figures.subgraphs, figures.operators
    of, size = result.partition.subgraph, np.bincount(result.partition.subgraph)[result.partition.subgraph]
    total = add or sum_over_branches(result, branches)
    of_host = np.zeros((len(_SUMMED), result.demand.n))
    if host is not None:
        of_host[:3] = host.run.latency_s, host.run.energy_j, shares(host.run.energy_j, host.run.latency_s, result)
    columns = total(np.stack([getattr(operators, name) for name in _SUMMED]), of_host)
    sums = dict(zip(_SUMMED, columns, strict=True))
    sums["macs"], sums["flops"] = total(np.stack([operators.macs, operators.flops]), None, _work_weights(result))
    # Nodes of whole subgraphs sum the figures of subgraphs; other nodes, and kinds of operators, those of operators.
    wholes = ("model", "group", "subgraph")
    is_whole = np.array([branch.kind in wholes and not branch.key.startswith(KIND) for branch in branches])
    own = total(np.stack([_modifier_parts(subgraphs)[:, of] / size, _modifier_parts(operators)]))
    base_j, ideal, telling = np.where(is_whole, own[0], own[1])
    modifier = np.where((telling > 0) & (base_j > 0), ratio(sums["share"] * result.edp_js, base_j), np.nan)
    used = ratio(ideal, sums["latency_s"])
    component_j = total(operators.component_j, None if host is None else host.component_energy_j)
    level = _complete_level(result, sums, component_j, base_j, modifier, used)
    for place, branch in enumerate(branches):
        level.modifier[place] = _own_modifier(figures, branch, level.modifier[place])
    return level


def _own_modifier(figures: TreeFigures, branch: Branch, modifier: float) -> float:
    """Return the modifier of one subgraph or operator in its own level, NaN for the host and parts, else `modifier`."""
    if branch.kind in ("host", "part"):
        return math.nan
    first, is_one = branch.members[0], branch.count == 1
    if branch.kind == "subgraph" and is_one:
        return float(figures.subgraphs.modifier[figures.estimate.partition.subgraph[first]])
    return float(figures.operators.modifier[first]) if branch.kind == "operator" and is_one else modifier


# The figures that a node of an outline sums; the host has the first three too.
_SUMMED = ("latency_s", "energy_j", "share", "bytes", "dram_bytes", "transfers", "fusion_benefit_js")


def _modifier_parts(level: TreeLevel) -> Floats:
    """Return base EDP, seconds at full peak, and 1 where a modifier has a meaning, (3, k)."""
    return np.stack([level.base_edp_js, level.utilization * level.latency_s, ~np.isnan(level.modifier)])


def _blocks(ids: Sequence[str]) -> Iterator[str]:
    """Yield the path of each block above some nodes."""
    for name in ids:
        words = name.split(".")
        yield from (".".join(words[:count]) for count in range(1, len(words)))


@memoize(keep=64)
def find_node(result: Estimate, path: str) -> tuple[str, int]:
    """Return ('model', 0), ('subgraph', s) or ('operator', i) for a node id, a module path or a unique ending. Return
    ('group', 0) for a branch of analysis/estimate/tree_figures.py, whose operators `operators_of` returns.

    Raises RequestError naming the nearest match."""
    parts, names = result.partition, result.workload.operators.path
    if path in ("", "/", result.workload.name):
        return "model", 0
    for kind, ids in (("subgraph", parts.id), ("operator", parts.operator_id), ("operator", names)):
        if path in ids:
            return kind, ids.index(path)
    endings = [i for i, name in enumerate(names) if name.endswith("." + path)]
    if len(endings) == 1:
        return "operator", endings[0]
    if members_of(result, path) is not None:
        return "group", 0
    raise unknown(
        "node", path, [*_blocks(parts.id), *parts.id, *parts.operator_id], listing="`hwexplorer tree` lists them"
    )


def estimate_of_node(result: Estimate, path: str) -> Estimate:
    """Return the estimate whose operators have the figures of a row of the tree: for the host's row, its work alone;
    for the model, everything; for other rows, everything without the host's work."""
    rest, host = divide_host_work(result)
    if path in ("", "/", result.workload.name):
        return result
    return host if path == HOST and host is not None else rest


def operators_of(result: Estimate, path: str) -> Ints:
    """Return the indices of the operators below a node."""
    kind, index = find_node(result, path)
    if kind == "group" and (members := members_of(result, path)) is not None:
        return members
    if kind == "model":
        return np.arange(result.workload.n_operators, dtype=np.int32)
    if kind == "subgraph":
        return np.array(result.partition.members[index], dtype=np.int32)
    return np.array([index], dtype=np.int32)
