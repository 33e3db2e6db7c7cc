"""Write the training step of a workload: forward pass, loss, backward pass and update as one workload.

Backward follows from one rule for each kind of operator. A contraction has two products of as many multiply-adds, the
gradients of its input and of its weights, and none of what nothing trains. Norms have the sums of their scale and
shift, then the gradient of their input. Sums and copies pass their gradient on. All else has one pass over gradient and
saved tensors. What backward reads is kept from the forward pass, so that peak memory follows from lifetimes.

Values of 16 bits leave weights in fp32 (`masters`). Autocast casts operands of products before each product and
gradients of weights after it; some calls are computed in fp32, and sums with their results too.
"""

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from analysis.model.ir import workload as ir
from analysis.model.ir.workload import ACTIVATION, BUFFER, INPUT, WEIGHT, Floats, Workload, base_name
from analysis.model.model_errors import ModelSpecError
from analysis.model.training.tape import FP32, INDEX, Tape, with_scores
from analysis.model.training.training_request import PATH, Training
from hardware.base import file_access
from hardware.base.records import memoize

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
BUCKET_BYTES = 25 * 2**20  # bucket_cap_mb of torch.nn.parallel.DistributedDataParallel
LANGUAGE = ("language", "encoder")  # families whose modules are those of transformers
PLAIN = {"encoder": "plain"}  # BERT and its family drop attention weights
_NORMS = ("batch_norm", "layer_norm", "group_norm", "norm")
SUMS = "batch_norm"  # sums over all but the channels take what those of a norm do
_INSIDE = ("batch_norm", "fill", "add", "cat", "copy")
_SCORES_AGAIN = 2.5  # products of attention backward over those of forward: scores, then four gradients


def _table() -> dict[str, Any]:
    return file_access.shipped(PATH)


@memoize(keep=3)
def training_step(forward: Workload, training: Training, is_narrow: bool, runs_by_call: bool = True) -> Workload:
    """Return the training step of a forward pass. `is_narrow`: values have fewer than 32 bits. `runs_by_call`: modules
    of transformers run call by call. Raises ModelSpecError for a model without weights that training would change."""
    if forward.parallel and "all_to_all" in forward.operators.kind:  # each device has experts of its own
        training = msgspec.structs.replace(training, devices=max(training.devices, forward.parallel.degree))
    is_plain = (training.attention or PLAIN.get(forward.family)) == "plain"
    whole = with_scores(forward) if is_plain else forward
    writer = _Writer(_share(whole, training.parts), training, is_narrow, runs_by_call)
    writer.write_forward()
    writer.write_backward()
    writer.write_update()
    return msgspec.structs.replace(
        writer.workload(forward, writer.of_weight.values()),
        routing=writer.forward.routing,
        repeats=writer.repeats() if training.accumulate > 1 else None,
        parallel=ir.Parallel(training.devices, 0.0) if training.devices > 1 else forward.parallel,
        training=ir.TrainedModel(forward, training, is_narrow, runs_by_call),
    )


def as_run(workload: Workload, value_bytes: float, is_eager: bool = True) -> Workload:
    """Return a training step for activations of so many bytes and, if it `is_eager`, for operators that run one by
    one; any other workload as it is."""
    step = workload.training
    now = value_bytes < FP32, is_eager or step is None or step.forward.family not in LANGUAGE
    if step is None or now == (step.is_narrow, step.runs_by_call):
        return workload
    return training_step(step.forward, step.settings, *now).bound(**workload.defaults)


def optimizer_name(training: Training, forward: Workload) -> str:
    """Return the optimizer that settings ask for, else the usual one of a family of models."""
    return training.optimizer or ("adamw" if forward.family in LANGUAGE else "momentum")


@memoize(keep=1)
def change_settings(step: Workload, *changes: tuple[str, object]) -> Workload:
    """Return a training step with other settings, which its name states."""
    was = step.training
    assert was is not None
    now = msgspec.structs.replace(was.settings, **dict(changes))

    def rename(text: str) -> str:
        """Return a name with the settings of now in place of those before."""
        return ",".join([text.removesuffix("".join(f",{word}" for word in was.settings.words)), *now.words])

    asked = tuple(rename(word) if word == was.forward.asked[-1] else word for word in was.forward.asked)
    forward = msgspec.structs.replace(was.forward, name=rename(was.forward.name), asked=asked)
    return training_step(forward, now, was.is_narrow, was.runs_by_call).bound(**step.defaults)


def _share(forward: Workload, parts: int) -> Workload:
    """Return the workload whose figures at a batch are those of one of its equal parts."""
    if parts == 1:
        return forward
    at = forward.dims.index("batch")
    scale = np.array([float(parts) ** -row[at] for row in forward.monomials])
    ops, tensors, routing = forward.operators, forward.tensors, forward.routing
    names = ("macs", "flops", "special", "gemm", "in_numel")
    return msgspec.structs.replace(
        forward,
        operators=msgspec.structs.replace(ops, **{name: getattr(ops, name) * scale for name in names}),
        tensors=msgspec.structs.replace(tensors, numel=tensors.numel * scale),
        scratch=None if forward.scratch is None else forward.scratch * scale,
        routing=routing and msgspec.structs.replace(routing, parts=parts // routing.devices),
    )


@memoize(shared=True)
def saved_tensors(step: Workload) -> ir.Ints:
    """Return the tensors of a training step that the forward pass keeps for the backward pass, the largest of each
    storage; the inputs are among them."""
    ops, tensors = step.operators, step.tensors
    start = next(i for i, path in enumerate(ops.path) if path.startswith(BACKWARD))
    read = np.unique(ops.in_tensor[ops.in_ptr[start] :])
    read = read[np.isin(tensors.role[read], (ACTIVATION, INPUT)) & (tensors.producer[read] < start)]
    rising = read[np.argsort(tensors.numel[read] @ step.value_at(**dict.fromkeys(step.dims, 2)))]
    kept = dict(zip(tensors.storage[rising].tolist(), rising.tolist(), strict=True))  # the last of each storage
    return np.array(sorted(kept.values()), dtype=np.int32)


@memoize(shared=True)
def weight_gradients(step: Workload) -> ir.Ints:
    """Return the gradients of weights, the largest tensor of each storage, which the update reads."""
    ops, tensors = step.operators, step.tensors
    start = next(i for i, path in enumerate(ops.path) if path.startswith(UPDATE))
    read = np.unique(ops.in_tensor[ops.in_ptr[start] :])
    roots = tensors.storage[read[(tensors.role[read] == ACTIVATION) & (tensors.producer[read] < start)]]
    return np.flatnonzero(np.isin(tensors.storage, roots)).astype(np.int32)


def is_inside(step: Workload) -> ir.Bools:
    """Return True for operators of a training step that a call of the framework or a node of autograd runs beside its
    own: statistics of a norm, sums for weights, the second gradient of a product, sums of gradients, (n,)."""
    targets, inside = step.operators.target, {f"hwexplorer.{name}.default" for name in _INSIDE}
    pairs = zip(("", *targets), targets, strict=False)
    seconds = [own.endswith(".weight") and own.removesuffix("weight") + "input" == before for before, own in pairs]
    return np.array([again or own in inside for own, again in zip(targets, seconds, strict=True)], dtype=np.bool_)


class _Writer(Tape):
    """A training step while it is written."""

    def __init__(self, forward: Workload, training: Training, is_narrow: bool, runs_by_call: bool) -> None:
        super().__init__(forward, training.parts)
        self.kept_between_calls = _table()["kept_between_calls"] if runs_by_call and forward.family in LANGUAGE else {}
        ops, self.training = forward.operators, training
        self.is_narrow = is_narrow and training.masters != "none"
        self.autocast = self.is_narrow and training.masters == "autocast"
        self.copies: dict[int, int] = {}  # of weights in 16 bits
        self.read_as: list[dict[int, int]] = [{} for _ in self.reads]  # what operator i reads in place of a tensor
        self.saved: list[list[int]] = [[] for _ in self.reads]
        self.what_is_saved = {word: str(what) for what, names in _table()["saved"].items() for word in names.split()}
        self.again: dict[int, int] = {}  # tensors that are computed again
        self.grads: dict[int, list[tuple[int, Floats]]] = {}
        self.of_attention: set[int] = set()
        self.of_weight: dict[int, int] = {}  # the gradient of each weight
        self.once: set[int] = set()  # operators that run once, whatever the parts of the batch
        self.bucket: list[int] = []  # weights whose gradients are exchanged together
        self.whole: dict[int, Floats] = {}  # the sizes of weights of which each device holds a part
        self.adapters: dict[int, tuple[int, int, Floats, Floats]] = {}  # of operator i: weights, result, product, work
        self.trained = self._find_trained()
        self.blocks = self._find_blocks()
        is_spread = "all_to_all" in ops.kind  # experts, of which each device has others
        self.own = {t for t, each in enumerate(self.tensors) if is_spread and ".experts." in each.name}
        if training.zero == 3:
            for t, each in enumerate(self.tensors):
                if each.role == WEIGHT and t not in self.own:
                    self.whole[t], each.numel = each.numel, each.numel / training.devices

    # --- forward -----------------------------------------------------------------------------------------------

    def _find_trained(self) -> set[int]:
        """Return the tensors that have a gradient: weights, and what follows from them."""
        kinds, macs, without = self.forward.operators.kind, self.forward.operators.macs, _table()["without_gradient"]
        weights = (t for t, each in enumerate(self.tensors) if each.role == WEIGHT and each.is_float)
        found = set() if self.training.lora else set(weights)
        for i, reads in enumerate(self.reads):
            adapts = self.training.lora and macs[i].any() and self._is_adapted(i)
            if (adapts or not found.isdisjoint(reads)) and kinds[i] not in without.split():
                found.update(t for t in self.writes[i] if self.tensors[t].is_float)
        return found

    def _weight_of(self, i: int) -> int:
        """Return the weight that operator i multiplies, -1 without one."""
        return next((t for t in self.reads[i] if self.tensors[t].role == WEIGHT), -1)

    def _find_blocks(self) -> list[str]:
        """Return the block of each operator, '' for one outside: modules of several operators whose names end in a
        number, the second from above if there are several."""
        every = [path.split(".") for path in self.forward.operators.path]
        ends = ((parts, end) for parts in every for end in range(1, len(parts)) if parts[end - 1][-1].isdigit())
        counts = Counter(".".join(parts[:end]) for parts, end in ends)
        blocks = []
        for parts in every:
            names = (".".join(parts[:end]) for end in range(1, len(parts)))
            own = [name for name in names if counts[name] > 2]
            blocks.append(own[min(len(own), 2) - 1] if own else "")
        return blocks

    def write_forward(self) -> None:
        """Write the forward pass and the loss of each output."""
        ops = self.forward.operators
        for i, kind in enumerate(ops.kind):
            path, first = f"{FORWARD}.{ops.path[i]}", next(iter(self.reads[i]), -1)
            if self.training.zero == 3:
                self._gather(i, FORWARD)
            self.read_as[i] = self._cast_operands(i, path)
            if base_name(ops.target[i])[1] and kind not in ("add", "fill") and self._saves(i) == "input":
                for t in self.writes[i]:  # PyTorch saves a copy of what is overwritten
                    for each in [each for each in self.tensors[t:] if each.storage == self.tensors[t].storage]:
                        each.storage = t
                copy = self.tensor(self.tensors[first].numel, f"{path}.copy")
                self.add(f"{path}.copy", "copy", [first], [copy])
            if kind == "batch_norm":
                size = next(self.tensors[t].numel for t in self.reads[i] if t != first) * 2.0
                sums = self.tensor(size, f"{path}.statistics", FP32)
                flops = self.tensors[first].numel * 3.0
                self.add(f"{path}.statistics", kind, [first], [sums], flops=flops)
            added = self._add_results(i)
            self._write_forward_op(i, path)
            self._widen_results(i)
            self.saved[i] = [*(self.read_as[i].get(t, t) for t in self._saved_by(i)), *added]
            if kind == "copy" and first in self.of_attention:  # attention lays its result out as it is read next
                self.tensors[self.writes[i][0]].storage = self.tensors[first].storage
            elif kind == "attention":
                self.of_attention.update(self.writes[i])
            if self.training.lora and self._is_adapted(i):
                self._write_adapter(i, path)
        outputs = np.flatnonzero(self.forward.tensors.is_output).tolist()
        for place, t in enumerate(t for t in outputs if t in self.trained):
            self._write_loss(t, f"loss.{place}" if place else "loss")

    def _add_results(self, i: int) -> list[int]:
        """Add what operator i writes beside its result for its gradients: positions of maxima, or values between the
        calls of a module."""
        ops, result = self.forward.operators, self.writes[i][0]
        if ops.kind[i] == "max_pool":
            added = [self.tensor(self.tensors[result].numel, f"{self.tensors[result].name}.positions", INDEX)]
            self.tensors[added[0]].dtype = "int64"
        else:
            is_kept = (self._weight_of(i) if ops.kind[i] in _NORMS else result) in self.trained
            count, numel = self.kept_between_calls.get(ops.module_type[i], 0) * is_kept, self.tensors[result].numel
            added = [self.tensor(numel, f"{self.tensors[result].name}.between") for _ in range(count)]
        self.writes[i] += added
        return added

    def _write_forward_op(self, i: int, path: str) -> None:
        reads = {self._now(self.read_as[i].get(t, t)): amount for t, amount in self.reads[i].items()}
        self.forward_op(i, path, reads, [self._now(t) for t in self.writes[i]])

    def _now(self, t: int) -> int:
        """Return the tensor that holds a value: the newest copy of one that is computed again."""
        return self.again.get(t, t)

    def _is_narrowed(self, i: int) -> bool:
        return self.forward.operators.kind[i] in _table()["autocast"]["narrow"].split()

    def _is_widened(self, i: int) -> bool:
        ops, wide = self.forward.operators, _table()["autocast"]["wide"].split()
        return ops.kind[i] in wide or base_name(ops.target[i])[0] in wide

    def _cast_operands(self, i: int, path: str) -> dict[int, int]:
        """Write the casts of autocast before a forward operator, and the copies of parts of tensors that a matmul lays
        out in rows. Return what it reads in place of its arguments."""
        cast: dict[int, int] = {}
        is_cast_wide = self.autocast and self._is_widened(i) and self.forward.operators.kind[i] not in _NORMS
        is_matmul = base_name(self.forward.operators.target[i])[0] == "matmul"
        for t, numel in self.reads[i].items():
            each, name = self.tensors[t], f"{path}.cast{len(cast) or ''}"
            is_narrowed = self.autocast and self._is_narrowed(i) and each.is_float
            if t in self.copies and self.training.zero == 3:
                cast[t] = self.copies[t]
            elif is_narrowed and each.role == WEIGHT:
                if t not in self.copies:
                    self.copies[t] = self.cast(t, name, 0)
                cast[t] = self.copies[t]
            elif is_narrowed and each.fixed == FP32:
                cast[t] = self.cast(t, name, 0)
            elif is_cast_wide and each.role == ACTIVATION and each.is_float and not each.fixed:
                cast[t] = self.cast(t, name, FP32)
            elif is_matmul and each.role == ACTIVATION and self.is_less(numel, each.numel):
                cast[t] = self.add(name, "copy", [t], [self.tensor(numel, name, each.fixed)])
                self.ops[-1].reads = [(t, numel)]
        return cast

    def _widen_results(self, i: int) -> None:
        """Keep the results of an operator in fp32 if autocast computes it so, or if an argument is."""
        wide = any(self.tensors[t].fixed == FP32 for t in self.reads[i] if self.tensors[t].is_float)
        if not self.autocast or self._is_narrowed(i) or self.forward.operators.kind[i] == "batch_norm":
            return
        for t in self.writes[i]:
            if (wide or self._is_widened(i)) and self.tensors[t].is_float:
                self.tensors[t].fixed = FP32

    def _write_loss(self, output: int, name: str) -> None:
        """Write a cross entropy of an output and its gradient, computed in fp32."""
        numel, wide = self.tensors[output].numel, FP32 * self.autocast
        back, narrows = f"{BACKWARD}.{name}", self.autocast and not self.tensors[output].fixed
        source = self.cast(output, f"{FORWARD}.{name}.cast", FP32) if narrows else output
        logs, picked, grad = (self.tensor(numel, f"{name}.{part}", wide) for part in ("logs", "picked", "gradient"))
        twice = {"flops": numel * 5.0, "special": numel}
        self.add(f"{FORWARD}.{name}", "softmax", [source], [logs], target="aten.log_softmax.default", **twice)
        self.add(f"{back}.nll", "fill", [], [picked])
        self.add(back, "softmax", [picked, logs], [grad], target="aten._log_softmax_backward_data.default", **twice)
        self.grads[output] = [(self.cast(grad, f"{back}.cast", 0) if narrows else grad, numel)]

    # --- what backward reads -----------------------------------------------------------------------------------

    def _saves(self, i: int) -> str:
        """Return what the gradients of operator i read: `input`, `result`, `operands`, `indices` or `nothing`."""
        (name, in_place), kind = base_name(self.forward.operators.target[i]), self.forward.operators.kind[i]
        return next(filter(None, map(self.what_is_saved.get, (f"{name}_" * in_place, name, kind))), "input")

    def _saved_by(self, i: int) -> list[int]:
        """Return the tensors that the gradients of operator i read beside gradients."""
        ops, saves = self.forward.operators, self._saves(i)
        reads = [t for t in self.reads[i] if self.tensors[t].is_float]
        if self.trained.isdisjoint(self.writes[i]) or saves == "nothing":
            return []
        if ops.kind[i] in ("attention", "recurrent"):
            return [*reads, self.writes[i][0]]
        if ops.macs[i].any() or saves == "operands":
            if len(reads) != 2:
                return reads if ops.macs[i].any() or ops.kind[i] == "pow" else []
            is_adapted = self.training.lora > 0 and self._is_adapted(i)
            first, second = reads
            pairs = (first, second), (second, first)
            return [t for t, other in pairs if other in self.trained or (is_adapted and t == first)]
        if saves in ("result", "mask"):
            return self.writes[i][:1] if saves == "result" else self.writes[i][1:]
        if saves in ("arguments", "indices"):
            return [t for t in self.reads[i] if saves == "arguments" or t not in reads]
        if ops.kind[i] in _NORMS:
            return [t for t in reads if self.tensors[t].role != BUFFER]
        return reads[:1]

    # --- backward ----------------------------------------------------------------------------------------------

    def write_backward(self) -> None:
        """Write the gradients of all operators, the last first; a block that is computed again comes before its own."""
        done, gathered = {""}, {""}
        for i in reversed(range(self.forward.n_operators)):
            if not any(self.grads.get(t) for t in self.writes[i]):
                continue
            if self.training.zero == 3 and self.blocks[i] not in gathered:
                self._exchange()
                gathered.add(self.blocks[i])
                self._gather(i, BACKWARD)
            if self.training.recompute == "blocks" and self.blocks[i] not in done:
                done.add(self.blocks[i])
                self._compute_again(self.blocks[i])
            self._write_gradient(i, f"{BACKWARD}.{self.forward.operators.path[i]}")
        self._exchange()

    def _compute_again(self, block: str) -> None:
        """Write the forward operators of a block again, those that its gradients need."""
        inside = [i for i, name in enumerate(self.blocks) if name == block]
        needed, kept = {t for i in inside for t in self.saved[i]}, set[int]()
        source = {new: t for i in inside for t, new in self.read_as[i].items()}
        needed.update(source[t] for t in list(needed) if t in source)
        for i in reversed(inside):
            if not needed.isdisjoint(self.writes[i]):
                kept.add(i)
                needed.update(self.reads[i])
        made, storage = {t for i in kept for t in self.writes[i]}, dict[int, int]()

        def renew(t: int, name: str) -> int:
            """Add a tensor that holds a value again."""
            old = self.tensors[t]
            new = self.tensor(old.numel, name, old.fixed)
            self.tensors[new].dtype, self.tensors[new].shape = old.dtype, old.shape
            self.tensors[new].storage = storage.setdefault(old.storage, new)
            self.again[t] = new
            return new

        for i in inside:
            path = f"{BACKWARD}.{self.forward.operators.path[i]}.again"
            for t, new in self.read_as[i].items():
                if t in made and (i in kept or new in self.saved[i]):
                    numel = self.tensors[new].numel
                    self.add(f"{path}.cast", "cast", [self._now(t)], [renew(new, path)], flops=numel)
            if i in kept:
                for t in self.writes[i]:
                    renew(t, path)
                self._write_forward_op(i, path)

    def _write_gradient(self, i: int, path: str) -> None:
        ops, kind = self.forward.operators, self.forward.operators.kind[i]
        grads = [self._sum_of(t, path) for t in self.writes[i] if self.grads.get(t)]
        saved = [self._now(t) for t in self.saved[i]]
        wanted = [t for t in self.reads[i] if t in self.trained]
        weights = [t for t in wanted if self.tensors[t].role == WEIGHT]
        inputs = [t for t in wanted if t not in weights]
        if kind == "bias":
            self._give(i, inputs[0], grads[0], path)
            self._write_sums(i, weights, f"{path}.sum", grads)
        elif kind in ("attention", "recurrent"):
            self._write_attention(i, path, [*grads, *saved], wanted)
        elif ops.macs[i].any():
            self._write_products(i, path, grads[0], saved, wanted)
        elif kind in _NORMS:
            self._write_sums(i, weights, f"{path}.sums", [*grads, *saved[:1]])
            self._write_passes(i, path, grads, saved, inputs)
        elif kind in ("embedding", "gather", "scatter", "roi_align", "sort") and self._saves(i) != "operands":
            self._write_picked(i, path, grads, saved, wanted)
        elif kind == "copy" and base_name(ops.target[i])[0] != "repeat":  # what was laid out anew is laid out back
            own = self.tensor(self.reads[i][wanted[0]], path, self.tensors[grads[0]].fixed)
            self._give(i, wanted[0], self.add(path, kind, grads, [own], target=ops.target[i]), path)
        elif kind in ("add", "sub", "cat", "all_gather"):
            for t in wanted:  # as it is; the sum of one that was spread
                is_spread = kind in ("add", "sub") and self.is_less(self.tensors[t].numel, self.tensors[grads[0]].numel)
                self._give(i, t, self._sum_spread(t, grads[0], path) if is_spread else grads[0], path)
        else:
            self._write_passes(i, path, grads, saved, wanted)

    def _give(self, i: int, t: int, grad: int, path: str) -> None:
        """Keep a part of the gradient of a tensor. That of a weight, once complete, has the width of the weight."""
        self.grads.setdefault(t, []).append((grad, self.reads[i][t]))
        if self.tensors[t].role != WEIGHT:
            return
        grad = self._sum_of(t, path)
        if self.autocast and self.tensors[grad].fixed != FP32:
            grad = self.cast(grad, f"{path}.cast", FP32)
            self.grads[t] = [(grad, self.whole.get(t, self.tensors[t].numel))]
        self.of_weight[t] = grad
        if self.training.devices > 1 and t not in self.own:
            self.bucket.append(t)
            elements = sum((self.whole.get(w, self.tensors[w].numel) for w in self.bucket), self.zero)
            if self.training.zero < 3 and self.size(elements) * FP32 >= BUCKET_BYTES:
                self._exchange()

    # --- several devices ---------------------------------------------------------------------------------------

    def _gather(self, i: int, phase: str) -> None:
        """Write the gathering of the weights of the block of operator i from all devices, if it is its first."""
        block = self.blocks[i]
        inside = [j for j, name in enumerate(self.blocks) if name == block] if block else [i]
        weights = dict.fromkeys(t for j in inside for t in self.reads[j] if t in self.whole)
        absent = [t for t in weights if phase == BACKWARD or t not in self.copies]
        if not absent:
            return
        path = f"{phase}.{block or self.forward.operators.path[i]}.gather"
        new = {t: self.tensor(self.whole[t], path) for t in absent}
        self.add(path, "all_gather", absent, list(new.values()))
        if phase == FORWARD:
            self.copies |= new
        else:
            self.again |= {self.copies[t]: whole for t, whole in new.items()}

    def _exchange(self) -> None:
        """Write the sum of gradients over all devices; from the second stage of ZeRO on, each keeps its part."""
        weights, self.bucket = [w for w in self.bucket if w in self.trained], []
        if not weights or self.training.devices == 1:
            return
        path, parts = f"{BACKWARD}.exchange", self.training.devices if self.training.zero > 1 else 1
        grads = [self.of_weight[w] for w in weights]
        over = [g if parts == 1 else -1 for g in grads]
        each = [self.tensors[g] for g in grads]
        sums = [self.tensor(g.numel / parts, path, g.fixed, root) for g, root in zip(each, over, strict=True)]
        if self.training.zero < 3:
            self.once.add(len(self.ops))
        flops = sum((g.numel for g in each), self.zero)
        target = {"target": "hwexplorer.reduce_scatter.default"} if self.training.zero else {}
        self.add(path, "all_gather" if self.training.zero else "all_reduce", grads, sums, flops=flops, **target)
        self.of_weight.update(zip(weights, sums, strict=True))

    def _sum_of(self, t: int, path: str) -> int:
        """Return the gradient of a tensor: the sum of what its readers gave, or what they gave of its parts joined."""
        numel, parts = self.whole.get(t, self.tensors[t].numel), self.grads[t]
        fixed = max(self.tensors[grad].fixed for grad, _ in parts)
        total = parts[0][0]
        if self.tensors[t].role != WEIGHT and any(self.is_less(part, numel) for _, part in parts):
            joined = self.tensor(numel, f"{path}.joined", fixed)
            total = self.add(f"{path}.joined", "cat", [grad for grad, _ in parts], [joined])
        else:
            for grad, _ in parts[1:]:
                added = self.tensor(numel, f"{path}.added", fixed)
                total = self.add(f"{path}.added", "add", [total, grad], [added], flops=numel)
        self.grads[t] = [(total, numel)]
        return total

    def _sum_spread(self, t: int, grad: int, path: str) -> int:
        """Write the sum of a gradient over what a value was spread over."""
        own = self.tensor(self.tensors[t].numel, f"{path}.sum", self.tensors[grad].fixed)
        return self.add(f"{path}.sum", SUMS, [grad], [own], flops=self.tensors[grad].numel)

    def _write_sums(self, i: int, weights: list[int], path: str, reads: list[int]) -> None:
        """Write the gradients of scale and shift, or of a bias: sums over all but the channels."""
        fixed = FP32 * (self.autocast and not self._is_narrowed(i))
        sums = [self.tensor(self.whole.get(t, self.tensors[t].numel), path, fixed) for t in weights]
        if sums:
            self.add(path, SUMS, reads, sums, flops=self.tensors[reads[0]].numel * float(2 * len(reads) - 1))
        for t, own in zip(weights, sums, strict=True):
            self._give(i, t, own, path)

    def _write_passes(self, i: int, path: str, grads: list[int], saved: list[int], wanted: list[int]) -> None:
        """Write a pass over gradient and saved values for each argument that has a gradient."""
        ops, saves, grad = self.forward.operators, self._saves(i), self.tensors[grads[0]]
        special = ops.special[i] if saves == "input" else self.zero
        for t in wanted:
            own_path = path if len(wanted) == 1 else f"{path}.{wanted.index(t)}"
            others = [s for s in saved if s != self._now(self.read_as[i].get(t, t)) or saves != "operands"]
            is_spread = saves == "operands" and self.is_less(self.reads[i][t], grad.numel)
            fixed = FP32 if self.tensors[t].fixed == FP32 and self.autocast else 0
            own = self.tensor(grad.numel if is_spread else self.reads[i][t], own_path, fixed)
            self.add(own_path, ops.kind[i], [*grads, *others], [own], flops=ops.flops[i] + grad.numel, special=special,
                     target=ops.target[i], module_type=ops.module_type[i])  # fmt: skip
            self._give(i, t, self._sum_spread(t, own, own_path) if is_spread else own, own_path)

    def _write_picked(self, i: int, path: str, grads: list[int], saved: list[int], wanted: list[int]) -> None:
        """Write a gradient of zeros, and into it the rows that were picked."""
        for t in wanted:
            own = self.tensor(self.whole.get(t, self.tensors[t].numel), path, FP32 * self.autocast)
            self.add(f"{path}.zeros", "fill", [], [own])
            rows = self.tensor(self.tensors[grads[0]].numel, path, FP32 * self.autocast, own)
            self.add(path, "scatter", [*grads, *saved], [rows], flops=self.tensors[grads[0]].numel)
            self.tensors[own].last = len(self.ops) - 1
            self._give(i, t, own, path)

    def _write_attention(self, i: int, path: str, reads: list[int], wanted: list[int]) -> None:
        """Write the gradients of queries, keys and values, or of a recurrent layer, by one kernel."""
        ops = self.forward.operators
        times = _SCORES_AGAIN if ops.kind[i] == "attention" else 2.0
        more = np.array([[times], [1.0], [1.0], [1.0]])
        results = [self.tensor(self.reads[i][t], f"{path}.{k}") for k, t in enumerate(wanted)]
        self.add(path, ops.kind[i], reads, results, macs=ops.macs[i] * times, flops=ops.flops[i] * times,
                 special=ops.special[i], gemm=ops.gemm[i] * more, target=f"{ops.target[i]}.backward")  # fmt: skip
        for t, own in zip(wanted, results, strict=True):
            self._give(i, t, own, path)

    def _write_products(self, i: int, path: str, grad: int, saved: list[int], wanted: list[int]) -> None:
        """Write the gradients of a contraction: of its input and its weights, or of both operands."""
        ops, weight = self.forward.operators, self._weight_of(i)
        groups, rows, columns, inner = ops.gemm[i]
        left = next((t for t in self.reads[i] if t != weight and self.tensors[t].is_float), weight)
        times = 2.0 if weight < 0 and len(self.reads[i]) == 1 else 1.0  # parts of one tensor are both operands
        for t in sorted(wanted, key=lambda t: t != left):
            leaf, gemm = "weight", np.stack([groups, columns, inner, rows])
            if ops.kind[i] in ("conv", "depthwise_conv"):  # the sums over images are divided: as many blocks as forward
                gemm = ops.gemm[i]
            if t == left:
                leaf, gemm = "input", self._input_product(i, left, weight)
            others = [s for s in saved if s != self._now(self.read_as[i].get(t, t))] or saved
            own = self.tensor(self.reads[i][t], f"{path}.{leaf}")
            macs, gemm = ops.macs[i] * times, gemm * np.array([[times], [1.0], [1.0], [1.0]])
            self.add(f"{path}.{leaf}", ops.kind[i], [grad, *others], [own], macs=macs, flops=macs * 2.0, gemm=gemm,
                     target=f"{ops.target[i]}.{leaf}", module_type=ops.module_type[i])  # fmt: skip
            if self.autocast and self.tensors[t].fixed == FP32 and self.tensors[t].role != WEIGHT:
                own = self.cast(own, f"{path}.{leaf}.cast", FP32)
            self._give(i, t, own, f"{path}.{leaf}")
        if self.training.lora and self._is_adapted(i):
            self._write_adapter_gradient(i, path, grad, saved[0])

    def _input_product(self, i: int, left: int, weight: int) -> Floats:
        """Return the product that gives the gradient of an input: of a convolution, with a row for each pixel of it."""
        groups, rows, columns, inner = gemm = self.forward.operators.gemm[i]
        sizes = self.tensors[weight].shape if weight >= 0 else ()
        if self.forward.operators.kind[i] not in ("conv", "depthwise_conv") or not all(
            isinstance(n, int) for n in sizes
        ):
            return np.stack([groups, rows, inner, columns])
        channels, count = float(sizes[1]), self.size(groups)
        pixels = self.reads[i][left] / (channels * count)
        depth = float(np.prod(gemm @ self.at_two)) / (count * self.size(pixels) * channels)
        return np.stack([groups, pixels, self.one * channels, self.one * depth])

    # --- adapters ----------------------------------------------------------------------------------------------

    def _is_adapted(self, i: int) -> bool:
        return self.forward.operators.kind[i] == "linear" and self._weight_of(i) >= 0

    def _write_adapter(self, i: int, path: str) -> None:
        """Write two products of low rank beside a frozen weight."""
        _, rows, columns, inner = self.forward.operators.gemm[i]
        rank, width = float(self.training.lora), self.size(columns) + self.size(inner)
        source = self.read_as[i].get(next(iter(self.reads[i])), next(iter(self.reads[i])))
        weight = self.tensor(self.one * (rank * width), f"{path}.lora", FP32 * self.autocast, role=WEIGHT)
        middle = self.tensor(rows * rank, f"{path}.lora")
        gemm, macs = np.stack([self.one, rows, self.one * rank, self.one * width]), rows * (rank * width)
        self.add(f"{path}.lora", "linear", [source, weight], [middle], macs=macs, flops=macs * 2.0, gemm=gemm)
        self.adapters[i] = weight, middle, gemm, macs

    def _write_adapter_gradient(self, i: int, path: str, grad: int, source: int) -> None:
        weight, middle, gemm, macs = self.adapters[i]
        own = self.tensor(self.tensors[weight].numel, f"{path}.lora", FP32 * self.autocast)
        self.add(f"{path}.lora", "linear", [grad, source, self._now(middle), weight], [own], macs=macs * 2.0,
                 flops=macs * 4.0, gemm=gemm[[0, 2, 3, 1]])  # fmt: skip
        self.of_weight[weight] = own

    # --- update ------------------------------------------------------------------------------------------------

    def write_update(self) -> None:
        """Write the update of all trained weights by kernels of several tensors each."""
        if not self.of_weight:
            raise ModelSpecError(f"{self.forward.name} has no weights that training would change")
        self.first_update = len(self.ops)
        for each in self.tensors:
            each.fixed = FP32 if each.role == WEIGHT and self.autocast else each.fixed
        name = optimizer_name(self.training, self.forward)
        rule, update = _table()["optimizers"][name], _table()["updates"][self.training.update]
        passes = 1 if update["is_fused"] else rule["passes"]
        has_masters, together = self.is_narrow and not self.autocast, rule.get("together", update["together"])
        weights = list(self.of_weight)
        for place in range(0, len(weights), together):
            group, path = weights[place : place + together], f"{UPDATE}.{name}.{place // together}"
            kept = [(w, *self._states(w, rule, has_masters)) for w in group]
            grads = [self.of_weight[w] for w in group]
            for k in range(passes):
                held = [each if passes == 1 else each[k % len(each) :][:1] for each in kept]
                reads = [*grads, *(t for each in held for t in each)]
                share = {t: self._part(w, t) for w in group for t in (w, self.of_weight[w])}
                written = [self._in_place_of(t, path, share) for changed in held for t in changed]
                flops = sum((share[w] for w in group), self.zero) * (rule["flops"] / passes)
                self.add(f"{path}.{k}", "elementwise", reads, written, flops=flops, target=f"hwexplorer.{name}.default")
                self.ops[-1].reads = [(t, share.get(t, self.tensors[t].numel)) for t in dict.fromkeys(reads)]
            shared = [w for w in group if self._is_shared(w)]
            if shared:
                self.add(f"{path}.gather", "all_gather", shared, [self._in_place_of(w, path, {}) for w in shared])
                self.ops[-1].reads = [(w, share[w]) for w in shared]

    def _is_shared(self, weight: int) -> bool:
        """Return True if each device updates a part of a weight, which others then gather."""
        return self.training.zero in (1, 2) and self.training.devices > 1 and weight not in self.own

    def _part(self, weight: int, tensor: int) -> Floats:
        """Return the elements of a tensor beside a weight that one device updates."""
        return self.tensors[tensor].numel / (self.training.devices if self._is_shared(weight) else 1)

    def _in_place_of(self, t: int, path: str, share: dict[int, Floats]) -> int:
        """Return a new value of tensor t, or of a device's share, in the memory of t."""
        each = self.tensors[t]
        return self.tensor(share.get(t, each.numel), path, each.fixed, t)

    def _states(self, weight: int, rule: dict[str, Any], has_master: bool) -> list[int]:
        """Add what the optimizer keeps of a weight; a fraction of bytes counts as more elements of one byte."""
        each, name = self.tensors[weight], f"{self.tensors[weight].name}.state"
        state_bytes = FP32 if self.size(each.numel) < rule.get("least", 0) else rule["state_bytes"]
        whole, numel = FP32 if state_bytes >= FP32 else 1, self._part(weight, weight)
        states = [self.tensor(numel * (state_bytes / whole), name, whole, role=BUFFER) for _ in range(rule["states"])]
        if has_master:
            states.append(self.tensor(numel, f"{each.name}.master", FP32, role=BUFFER))
        return states

    def repeats(self) -> Floats:
        """Return how often each operator runs: all but the update for each part of the batch."""
        times = np.repeat([self.one], len(self.ops), axis=0)
        times[: self.first_update] *= float(self.training.accumulate)
        times[sorted(self.once)] = self.one
        return times
