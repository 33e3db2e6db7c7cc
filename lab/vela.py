"""Cycles of Arm's compiler Vela beside ours, for networks on the configurations of Ethos-U.

`python -m lab.vela` compares with vela_cycles.csv, models that constants were chosen with apart from the others.
`python -m lab.vela --write VELA` compiles all again with that program and writes the file: an hour. It needs torch and
flatbuffers. Networks are captured, and written as TFLite files in int8 with random weights, which hardly compress.
"""

import argparse
import csv
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hwexplorer
from analysis.model import store
from analysis.model.ir.workload import INPUT, WEIGHT, Workload
from hwexplorer import engine
from lab import tiny_networks

PATH = Path(__file__).with_name("vela_cycles.csv")
_TINY = ("ds_cnn", "person_detection", "resnet8", "autoencoder", "feed_forward")
SEEN = (*_TINY, "mobilenet_v2", "mnasnet1_0", "resnet18", "resnet50", "squeezenet1_1")
UNSEEN = ("cifar_cnn", "mnasnet0_5", "mnasnet1_3", "resnet34", "squeezenet1_0", "wide_resnet50_2")
DEVICES = (
    *(f"ethos_u55_{macs}" for macs in (32, 64, 128, 256)),
    *(f"ethos_u65_{macs}" for macs in (256, 512)),
    *(f"ethos_u85_{macs}" for macs in (128, 256, 512, 1024, 2048)),
)
_INPUTS = {
    "ds_cnn": "1x1x49x10",
    "person_detection": "1x3x96x96",
    "resnet8": "1x3x32x32",
    "cifar_cnn": "1x3x32x32",
    "autoencoder": "1x640",
    "feed_forward": "64x256",
}
_FIXED = ("feed_forward",)  # whose rows are tokens
# The code of an operator and that of its options, in the schema of TFLite.
_KINDS = {
    "add": (0, 11),
    "avg_pool": (1, 5),
    "cat": (2, 10),
    "conv": (3, 1),
    "depthwise_conv": (4, 2),
    "linear": (9, 8),
    "max_pool": (17, 5),
    "reshape": (22, 17),
}
_INT8, _INT32 = 9, 2
_SCALE, _WEIGHT_SCALE = 0.05, 0.005


def measured() -> dict[tuple[str, str], float]:
    """Return the cycles by Vela of each model and device."""
    with PATH.open(encoding="utf-8") as file:
        return {(row["model"], row["device"]): float(row["cycles"]) for row in csv.DictReader(file)}


def predicted(model: str, devices: Sequence[str]) -> dict[str, float]:
    """Return our cycles of a model on devices, without the call of the driver, which Vela does not count."""
    rows = hwexplorer.compare(_words(model), on=",".join(devices), precision="int8", **_settings(model)).rows
    facts = {name: engine.device(name) for name in devices}
    return {row.device: (row.latency_s - facts[row.device].dispatch_s) * facts[row.device].clock_hz for row in rows}


def _words(model: str) -> str:
    return f"{tiny_networks.__file__}:{model}" if model in _INPUTS else model


def _settings(model: str) -> dict[str, Any]:
    settings = {"input": [_INPUTS[model]]} if model in _INPUTS else {}
    return settings | ({"batch_dim": "none"} if model in _FIXED else {})


def compare() -> None:
    """Print our cycles over Vela's by model and device, and the median of the errors."""
    cycles = measured()
    for title, models in (("seen", SEEN), ("unseen", UNSEEN)):
        print(f"{title:18}", *(name.removeprefix("ethos_").rjust(9) for name in DEVICES))
        errors: list[list[float]] = []
        for model in models:
            ours = predicted(model, DEVICES)
            ratios = [ours[name] / cycles.get((model, name), math.nan) for name in DEVICES]
            print(f"{model:18}", *(f"{ratio:9.2f}" for ratio in ratios))
            errors.append([abs(ratio - 1.0) for ratio in ratios])
        found = np.array(errors)
        print(f"{'median error':18}", *(f"{value:9.1%}" for value in np.nanmedian(found, axis=0)))
        known = found[~np.isnan(found)]
        print(f"all: {np.median(known):.1%}, {np.mean(known <= 0.1):.0%} within 10 %\n")


def write(program: str) -> None:
    """Compile all networks with Vela and write their cycles."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in (*SEEN, *UNSEEN):
            path = Path(folder) / f"{model}.tflite"
            path.write_bytes(Network(_workload(model, Path(folder))).encode())
            for device in DEVICES:
                configuration = device.replace("_", "-")
                command = [
                    program,
                    str(path),
                    "--accelerator-config",
                    configuration,
                    "--output-dir",
                    f"{folder}/{device}",
                ]
                subprocess.run(command, check=True, capture_output=True)
                (summary,) = (Path(folder) / device).glob(f"{model}_summary_*.csv")
                with summary.open(encoding="utf-8") as file:
                    rows.append((model, device, next(csv.DictReader(file))["cycles_total"]))
    lines = ["model,device,cycles", *(f"{model},{device},{float(cycles):.0f}" for model, device, cycles in rows)]
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _workload(model: str, folder: Path) -> Workload:
    """Return a network as operators, captured if it is one of ours."""
    if model not in _INPUTS:
        return store.load(model)
    path = folder / f"{model}.msgpack.gz"
    hwexplorer_words = [sys.executable, "-m", "hwexplorer", "capture", _words(model), "--input", _INPUTS[model]]
    fixed = ["--batch-dim", "none"] if model in _FIXED else []
    subprocess.run([*hwexplorer_words, *fixed, "-o", str(path)], check=True, capture_output=True)
    return store.load(str(path))


class Network:
    """A network in the terms of TFLite: tensors (shape, type, buffer, scale) and operators (kind, inputs, output,
    options), in the order of images, rows, columns, channels."""

    def __init__(self, workload: Workload) -> None:
        self.tensors: list[tuple[list[int], int, int, float]] = []
        self.buffers: list[bytes] = [b""]
        self.operators: list[tuple[str, list[int], int, dict[str, Any]]] = []
        self.inputs: list[int] = []
        self._of: dict[int, int] = {}  # the tensor here of one of the workload
        self._random = np.random.default_rng(0)
        self._workload = workload
        ops = workload.operators
        for i in range(workload.n_operators):
            read = ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i + 1]].tolist()
            self._add(i, read, int(ops.out_tensor[ops.out_ptr[i]]))
        self.outputs = [self._of[int(i)] for i in np.flatnonzero(workload.tensors.is_output)]

    def _shape(self, tensor: int) -> list[int]:
        """Return the shape of a tensor of the workload, channels last, for a batch of one."""
        shape = [1 if isinstance(size, str) else size for size in self._workload.tensors.shape[tensor]]
        return [shape[0], *shape[2:], shape[1]] if len(shape) == 4 else shape

    def _tensor(self, shape: list[int], of: int = _INT8, data: bytes = b"", scale: float = _SCALE) -> int:
        if data:
            self.buffers.append(data)
        self.tensors.append((shape, of, len(self.buffers) - 1 if data else 0, scale))
        return len(self.tensors) - 1

    def _read(self, tensor: int) -> int:
        if tensor not in self._of:
            self._of[tensor] = self._tensor(self._shape(tensor))
            self.inputs.append(self._of[tensor])
        return self._of[tensor]

    def _weights(self, shape: list[int], channels: int) -> list[int]:
        values, scale = self._random.integers(-127, 128, shape), _SCALE * _WEIGHT_SCALE
        biases = self._random.integers(-500, 500, channels)
        return [
            self._tensor(shape, _INT8, values.astype(np.int8).tobytes(), _WEIGHT_SCALE),
            self._tensor([channels], _INT32, biases.astype(np.int32).tobytes(), scale),
        ]

    def _emit(self, kind: str, inputs: list[int], shape: list[int], **options: Any) -> int:
        self.operators.append((kind, inputs, self._tensor(shape), options))
        return self.operators[-1][2]

    def _add(self, i: int, read: list[int], out: int) -> None:
        """Add operator `i` of the workload, or join it to the one that it follows."""
        ops, roles = self._workload.operators, self._workload.tensors.role
        kind = ops.kind[i]
        images = [self._read(tensor) for tensor in read if roles[tensor] <= INPUT]
        if kind in ("batch_norm", "bias", "relu", "relu6"):
            if kind.startswith("relu"):
                of = next(each for each in reversed(self.operators) if each[2] == images[0])
                of[3]["activation"] = 3 if kind == "relu6" else 1
            self._of[out] = images[0]
            return
        shape, given = self._shape(out), self.tensors[images[0]][0]
        stride = max(round(given[1] / shape[1]), 1) if len(shape) == len(given) == 4 and shape[1] > 1 else 1
        is_same = len(given) == 4 and math.ceil(given[1] / stride) == shape[1]
        image = {"valid": not is_same, "stride": stride}
        if kind in ("conv", "depthwise_conv"):
            outputs, inputs, *window = self._workload.tensors.shape[next(t for t in read if roles[t] == WEIGHT)]
            sides = [1, *window, outputs] if kind == "depthwise_conv" else [outputs, *window, inputs]
            self._of[out] = self._emit(
                kind, [*images, *self._weights([int(n) for n in sides], int(outputs))], shape, **image
            )
        elif kind == "linear":
            _, rows, columns, inner = (ops.gemm[i] @ self._workload.value_at(batch=1)).astype(int).tolist()
            if given != [rows, inner]:
                images = [self._emit("reshape", images, [rows, inner])]
            self._of[out] = self._emit(kind, [*images, *self._weights([columns, inner], columns)], [rows, columns])
        elif kind in ("avg_pool", "mean"):
            self._of[out] = self._emit("avg_pool", images, [1, 1, 1, given[3]], valid=True, stride=1, window=given[1:3])
        elif kind == "max_pool":
            values = self._workload.value_at(batch=1)
            side = round(math.sqrt(ops.flops[i] @ values / math.prod(shape)))
            self._of[out] = self._emit(kind, images, shape, window=[side, side], **image)
        elif kind in ("add", "cat"):
            self._of[out] = self._emit(kind, images, shape)
        else:
            raise ValueError(f"{ops.path[i]}: {kind} has no form in TFLite here")

    def encode(self) -> bytes:
        """Return the file: tables of the schema of TFLite by number of field."""
        import flatbuffers

        b = flatbuffers.Builder(1 << 20)

        def table(*fields: tuple[int, str, Any]) -> Any:
            b.StartObject(max((field for field, _, _ in fields), default=-1) + 1)
            for field, kind, value in fields:
                adds = {"o": b.PrependUOffsetTRelativeSlot, "i": b.PrependInt32Slot, "b": b.PrependInt8Slot}
                (adds | {"u": b.PrependUint32Slot, "B": b.PrependUint8Slot})[kind](field, value, 0)
            return b.EndObject()

        def offsets(values: list[Any]) -> Any:
            b.StartVector(4, len(values), 4)
            for value in reversed(values):
                b.PrependUOffsetTRelative(value)
            return b.EndVector()

        def vector(values: Sequence[float], of: str = "int32") -> Any:
            return b.CreateNumpyVector(np.array(values, of))

        def buffer(data: bytes) -> Any:
            if not data:
                return table()
            b.StartVector(1, len(data), 16)
            b.head -= len(data)
            b.Bytes[b.head : b.head + len(data)] = data
            return table((0, "o", b.EndVector()))

        def tensor(number: int) -> Any:
            shape, of, data, scale = self.tensors[number]
            name, sizes, scales = b.CreateString(f"t{number}"), vector(shape), vector([scale], "float32")
            zeros = vector([0], "int64")
            quantised = table((2, "o", scales), (3, "o", zeros))
            return table((0, "o", sizes), (1, "b", of), (2, "u", data), (3, "o", name), (4, "o", quantised))

        def options(kind: str, shape: list[int], chosen: dict[str, Any]) -> Any:
            activation, stride = chosen.get("activation", 0), chosen.get("stride", 1)
            window = chosen.get("window", [1, 1])
            image = (0, "b", int(chosen.get("valid", False))), (1, "i", stride), (2, "i", stride)
            if kind == "conv":
                return table(*image, (3, "b", activation), (4, "i", 1), (5, "i", 1))
            if kind == "depthwise_conv":
                return table(*image, (3, "i", 1), (4, "b", activation), (5, "i", 1), (6, "i", 1))
            if kind in ("avg_pool", "max_pool"):
                return table(*image, (3, "i", window[1]), (4, "i", window[0]), (5, "b", activation))
            if kind == "cat":
                return table((0, "i", 3), (1, "b", activation))
            return table((0, "o", vector(shape))) if kind == "reshape" else table((0, "b", activation))

        def operator(kind: str, inputs: list[int], out: int, chosen: dict[str, Any]) -> Any:
            chosen_options = options(kind, self.tensors[out][0], chosen)
            read, written = vector(inputs), vector([out])
            code = (0, "u", kinds.index(kind)), (1, "o", read), (2, "o", written)
            return table(*code, (3, "B", _KINDS[kind][1]), (4, "o", chosen_options))

        kinds = sorted({each[0] for each in self.operators})
        codes = [table((0, "b", _KINDS[kind][0]), (2, "i", 1), (3, "i", _KINDS[kind][0])) for kind in kinds]
        parts = (
            offsets([tensor(number) for number in range(len(self.tensors))]),
            vector(self.inputs),
            vector(self.outputs),
            offsets([operator(*each) for each in self.operators]),
        )
        graph = offsets([table(*((field, "o", part) for field, part in enumerate(parts)))])
        tables, data = offsets(codes), offsets([buffer(each) for each in self.buffers])
        b.Finish(table((0, "u", 3), (1, "o", tables), (2, "o", graph), (4, "o", data)), b"TFL3")
        return bytes(b.Output())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare our cycles on Ethos-U with Vela's, or compile all again.")
    parser.add_argument("--write", metavar="VELA", help="the program to compile with")
    program = parser.parse_args().write
    if program:
        write(program)
    else:
        compare()
