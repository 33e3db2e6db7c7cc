"""The role of each tensor for a precision: activation, weight, parameter that stays wide, or key-value cache.

Weights are the parameters that contractions multiply. If only they are quantised, embeddings, head, routers, norms and
biases stay wide, as in the checkpoints that serving programs load; in those of 4 bits also parts that the model names.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.model.ir.workload import INPUT, WEIGHT, Bools, Floats, Ints, Workload
from analysis.model.transformer.hf_config import WEIGHT_FORMATS
from hardware import file_access
from hardware.memo import memoize
from hardware.precision import ACTIVATION, CACHE, EXCLUDED, KEPT, QUANTIZED, Widths

HEAD = "lm_head"  # the layer that makes logits, in every language model here


@memoize(shared=True)
def roles(workload: Workload) -> Ints:
    """Return the role of each tensor, shape (t,)."""
    ops, tensors = workload.operators, workload.tensors
    role_of = np.full(len(tensors.name), ACTIVATION, dtype=np.int32)
    role_of[tensors.role == WEIGHT] = KEPT
    reader = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    multiplies: Bools = np.any(ops.macs != 0, axis=1)
    looked_up = np.array([kind == "embedding" for kind in ops.kind], dtype=np.bool_)
    of_operator: Ints = np.array([_weight_role(path, workload) for path in ops.path], dtype=np.int32)
    weights = np.flatnonzero(multiplies[reader] & (tensors.role[ops.in_tensor] == WEIGHT))
    role_of[ops.in_tensor[weights]] = of_operator[reader[weights]]
    tables = ops.in_tensor[looked_up[reader]]
    role_of[tables[tensors.role[tables] == WEIGHT]] = KEPT
    appends = {i for i, target in enumerate(ops.target) if "cache_append" in target}
    for t, (name, role, producer) in enumerate(
        zip(tensors.name, tensors.role.tolist(), tensors.producer.tolist(), strict=True)
    ):
        if (role == INPUT and name.endswith("_cache")) or producer in appends:
            role_of[t] = CACHE
    return role_of


def _weight_role(path: str, workload: Workload) -> int:
    """Return the role of the weights that an operator multiplies."""
    if path.rpartition(".")[2] in file_access.shipped(WEIGHT_FORMATS)["wide"]["layers"]:
        return KEPT
    is_wide = any(f".{part}." in f".{path}." for part in workload.wide)
    return (KEPT if workload.is_wide_in_8_bits else EXCLUDED) if is_wide else QUANTIZED


@memoize(shared=True)
def right_roles(workload: Workload) -> Ints:
    """Return the role of what each operator multiplies its activations by, shape (n,): weights, or the cache."""
    ops, of_tensor = workload.operators, roles(workload)
    role_of = np.full(workload.n_operators, ACTIVATION, dtype=np.int32)
    reader = np.repeat(np.arange(workload.n_operators), np.diff(ops.in_ptr))
    for role in (KEPT, EXCLUDED, QUANTIZED, CACHE):
        role_of[reader[of_tensor[ops.in_tensor] == role]] = role
    return role_of


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """Values of r tensors. `numel` (r, m) counts them, as coefficients; `fixed_bytes` (r,) is the bytes of one value if
    the model fixes its type, else 0; `precision_role` (r,) is the role of the tensor for a precision."""

    numel: Floats
    fixed_bytes: Ints
    precision_role: Ints

    def size_bytes(self, point: Floats, widths: Widths) -> Floats:
        """Return the bytes of each tensor, (r,), at the monomials `point` (m,)."""
        size: Floats = (self.numel @ point) * value_bytes(self.fixed_bytes, self.precision_role, widths)
        return size


def select_values(workload: Workload, which: Ints | Bools) -> Values:
    """Return the values of some tensors, each once and whole."""
    tensors = workload.tensors
    return Values(
        numel=tensors.numel[which], fixed_bytes=tensors.fixed_bytes[which], precision_role=roles(workload)[which]
    )


def value_bytes(fixed_bytes: Ints, role: Ints, widths: Widths) -> Floats:
    """Return the bytes of each value: `fixed_bytes` if the model fixes its type, else the width of its role."""
    return np.where(fixed_bytes > 0, fixed_bytes, np.array(widths.by_role)[role])


def tensor_bytes(workload: Workload, widths: Widths) -> Floats:
    """Return the bytes of one value of each tensor, shape (t,)."""
    return value_bytes(workload.tensors.fixed_bytes, roles(workload), widths)
