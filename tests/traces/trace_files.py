"""One small file of each format, written as its tool writes it, of a model that is a convolution, a ReLU and a linear
layer."""

import gzip
import json
import sqlite3
from pathlib import Path

SHAPES = {"conv": [[1, 3, 8, 8], [4, 3, 3, 3]], "relu_": [[1, 4, 8, 8]], "linear": [[1, 256], [10, 256], [10]]}


def _event(name: str, category: str, start: float, duration: float, **args: object) -> dict[str, object]:
    lane = {"pid": 1, "tid": 1} if category not in ("kernel", "gpu_memcpy") else {"pid": 0, "tid": 7}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "args": args, **lane}


def _run(at: float, slower: float) -> list[dict[str, object]]:
    return [
        _event("aten::conv2d", "cpu_op", at + 1, 50 * slower, **{"Input Dims": SHAPES["conv"]}),
        _event("aten::convolution", "cpu_op", at + 2, 48 * slower, **{"Input Dims": SHAPES["conv"]}),
        _event("aten::relu_", "cpu_op", at + 60, 5, **{"Input Dims": SHAPES["relu_"]}),
        _event("aten::flatten", "cpu_op", at + 66, 1, **{"Input Dims": SHAPES["relu_"]}),
        _event("aten::linear", "cpu_op", at + 70, 20, **{"Input Dims": SHAPES["linear"]}),
    ]


def kineto_cpu(path: Path) -> Path:
    """Three runs of 100 us, the first slower; their sum per run is 76 us and nothing runs for 24."""
    events = [e for i, slower in enumerate((1.1, 1.0, 1.0)) for e in _run(i * 1000.0, slower)]
    events += [_event("ProfilerStep#1", "user_annotation", i * 1000.0, 100) for i in range(3)]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return path


def kineto_gpu(path: Path, packed: bool = False) -> Path:
    """Operators on the host and what they launched: kernels of 30, 2 and 8 us, and a replayed graph of ten of 1 us."""
    events = _run(0.0, 1.0)
    launches = [("volta_scudnn_128x64", 3, 30), ("elementwise_kernel", 61, 2), ("ampere_sgemm_32x32", 71, 8)]
    for i, (name, at, duration) in enumerate(launches):
        events.append(_event("cudaLaunchKernel", "cuda_runtime", at, 1, correlation=i))
        events.append(_event(name, "kernel", at + 20, duration, correlation=i, stream=7))
    events.append(_event("cudaGraphLaunch", "cuda_runtime", 95, 1, correlation=99))
    events += [_event("flash_fwd_kernel", "kernel", 110 + 2 * i, 1, correlation=99) for i in range(10)]
    data = {"deviceProperties": [{"name": "Test GPU"}], "traceEvents": events}
    path.write_bytes(gzip.compress(json.dumps(data).encode()) if packed else json.dumps(data).encode())
    return path


def onnxruntime(path: Path) -> Path:
    rows: list[dict[str, object]] = []
    for i in range(3):
        at = 1000 * i
        rows.append(_event("model_run", "Session", at, 100))
        for name, kind, start, duration in (("conv", "Conv", 1, 60), ("fc", "Gemm", 70, 20)):
            shape = [{"float": size} for size in SHAPES["conv" if kind == "Conv" else "linear"]]
            args = {"op_name": kind, "provider": "CPUExecutionProvider", "input_type_shape": shape}
            rows.append(_event(f"{name}_kernel_time", "Node", at + start, duration, **args))
            rows.append(_event(f"{name}_fence_before", "Node", at + start, 0, op_name=kind))
    path.write_text(json.dumps(rows))
    return path


def trtexec(path: Path, times: int = 1) -> Path:
    rows = [
        {"count": 10},
        {"name": "Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1", "timeMs": 0.1, "averageMs": 0.01},
        {"name": "Conv_0 + Relu_1", "timeMs": 0.5, "averageMs": 0.05, "medianMs": 0.05, "percentage": 60},
        {"name": "Gemm_3", "timeMs": 0.2, "averageMs": 0.02, "percentage": 24},
    ]
    path.write_text("\n".join(json.dumps(rows) for _ in range(times)))
    return path


def nsys_csv(path: Path) -> Path:
    path.write_text(
        "Processing [x.sqlite] with [cuda_gpu_kern_sum.py]...\n\n"
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '60.0,60000,2,30000.0,30000.0,1,2,0.1,"void cutlass::Kernel2<a, b>(T1::Params)"\n'
        "40.0,40000,4,10000.0,10000.0,1,2,0.1,softmax_warp_forward\n"
    )
    return path


def nsys_sqlite(path: Path) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, demangledName INT)")
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "gemm_kernel"), (2, "layer_norm_kernel")])
        rows = [(0, 30_000, 0, 1), (50_000, 60_000, 0, 2), (0, 1_000, 1, 1)]
        db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", rows)
    db.close()
    return path


def nsys_nvtx(path: Path) -> Path:
    """Two runs under emit_nvtx, of a layer of two kernels and of a kernel that nothing is marked around."""
    process = 1 << 24
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        kernel = "start INT, end INT, deviceId INT, demangledName INT, correlationId INT, globalPid INT"
        db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({kernel})")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, globalTid INT, correlationId INT)")
        db.execute("CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT)")
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "splitKreduce"), (2, "sgemm"), (3, "block.fc")])
        sizes = "aten::linear, op_id = 7, sizes = [[8, 512], [1000, 512], [1000]]"
        for start in (0, 1_000):
            ranges = [(0, 500, None, 3), (10, 400, sizes, None), (20, 300, "aten::addmm, op_id = 8", None)]
            rows = [(start + a, start + b, 59, text, key, process + 5) for a, b, text, key in ranges]
            db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", rows)
            for at, name in ((100, 2), (200, 1), (600, 2)):
                key = (start + at, process + 5, start + at)
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?)", key)
                row = (start + at + 50, start + at + 90, 0, name, start + at, process)
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?)", row)
    db.close()
    return path


def openvino(path: Path) -> Path:
    path.write_text(
        "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
        "x;Status.NOT_RUN;Parameter;unknown_I8;0.000;0.000\n"
        "conv;Status.EXECUTED;Convolution;brgconv_avx512_f32;0.050;0.050\n"
        "fc;EXECUTED;FullyConnected;brgemm_avx512_f32;0.020;0.020\n"
        "Total;;;;0.070;0.070\n\n"
    )
    return path


WRITERS = {
    "pytorch": kineto_cpu,
    "pytorch_gpu": kineto_gpu,
    "onnxruntime": onnxruntime,
    "tensorrt": trtexec,
    "nsys": nsys_csv,
    "nsys_sqlite": nsys_sqlite,
    "nsys_nvtx": nsys_nvtx,
    "openvino": openvino,
}
