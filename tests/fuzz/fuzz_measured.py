"""Tables of measurements (`validate --data`): every row is predicted or counted, and the document is one."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.fuzz import mutate
from tests.fuzz.running import is_answered
from tests.measure.test_tool_results import FILES

HEAD = (
    "source,device,device_mode,framework,model,image_size,batch,precision,scenario,latency_ms,throughput_per_s,"
    "energy_mJ_per_inference,note"
)
SEEDS = (
    f"{HEAD}\nme,h100_sxm,,pytorch eager,resnet18,,8,fp16,,1.5,,30,\nme,t4,,TensorRT 8,resnet18,224,1,int8,,,900,,\n",
    f"{HEAD}\nMLPerf,h100_sxm x8,,TensorRT,resnet18,,,int8,Offline,,80000,,incl. transfers\n"
    'Fischer,xeon_8490h,,"tensorflow 2.9, oneDNN",mobilenet_v2,,32,fp32,dynamic,12.5,,,incl. input pipeline\n',
    f"{HEAD}\nme,jetson_agx_orin,30w,pytorch eager NCHW,resnet18,,1,fp32 (TF32),,9,,,\n",
)
SEEDS += tuple(text if isinstance(text, str) else json.dumps(text) for text, *_ in FILES.values())
WORDS = (
    *("device", "model", "batch", "latency_ms", "throughput_per_s", "energy_mJ_per_inference", "precision", "note"),
    *("resnet18", "llama3_8b:decode", "gemm:M=9,N=9,K=9", "/dev/zero", "hf:.", "t4", "t4 x99", "cpu", "maxn", "int4"),
    *("TensorRT", "tensorflow 2.", "compiled", "Offline", "incl. transfers", '"', '""', ",,", "\r\n"),
)  # fmt: skip


def mutations(random: Random) -> Iterator[bytes]:
    return mutate.files(random, [seed.encode() for seed in SEEDS], WORDS)


def survive(data: bytes) -> bool:
    Path("mine.csv").write_bytes(data)
    return is_answered(["validate", "--data", "mine.csv"])
