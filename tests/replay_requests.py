"""The requests that tests/replay.py records: words of the command line, drawn at random from a seed.

A group is a model with some requests of it, or requests that follow from each other (a file is written, then read).
Names of models, devices, power modes and nodes are asked of the program.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import replay

Argv = list[str]

WHAT_IFS = ("memory_bandwidth*2", "clock_hz*0.8", "units*2", "units*0.5,memory_bandwidth*1.5", "process_nm=7")
KPU_WHAT_IFS = ("units=512,process_nm=7,tile.mac:fp32=2pJ", "array=32", "scratchpad_bytes*2")
PLAIN = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4")
WEIGHTS = (
    "w8a16",
    "w8a8",
    "w4a16",
    "w4a8",
    "nvfp4",
    "mxfp4",
    "q4_k_m",
    "q8_0",
    "w4a16kv8",
    "fp8kv16",
    "fp16kv4",
    "bf16",
)
RUNTIMES = (
    "eager",
    "compiled",
    "fused",
    "tensorrt",
    "torch_compile",
    "cuda_graphs",
    "onnxruntime",
    "openvino",
    "tflite",
)
LANGUAGE_RUNTIMES = ("eager", "fused", "transformers", "vllm", "tensorrt_llm", "llama_cpp", "ik_llama_cpp", "vllm_rocm")
PLOTS = ("roofline", "roofs", "energy_roofs", "cumulative", "batch", "pareto", "memory")
BLOCKS = (
    *("mlp:hidden=512", "conv2d:size=14,out=256", "resnet_block:channels=128,size=28", "attention_head:sequence=1024"),
    *("gemm:8192x8192x8192", "gemm:M=1,N=4096,K=4096", "gemm:17x33x65", "transformer_block:sequence=64,heads=8"),
    *("depthwise_separable", "pooling", "layer_norm", "conv2d", "mlp", "gemm", "resnet_block", "transformer_block"),
)
PHASES = (
    *("", ":decode,kv=512", ":decode,kv=4096", ":decode,kv=32768,tp=8", ":request,in=512,out=128", ":sequence=2048"),
    *(":request,in=128,out=64,tp=2", ":decode,kv=1024,tp=4,link=100", ":sequence=64,kv=64"),
)
EXPERT_PHASES = (":decode,kv=2048,ep=8", ":decode,tp=8,ep=8", ":sequence=1024,ep=4", ":request,in=256,out=32,tp=4,ep=4")
IMAGE_SIZES = (("resnet18", 192), ("mobilenet_v2", 160), ("efficientnet_b0", 256), ("vgg11", 96), ("densenet121", 128))
LIMITED = ("--max-latency 5ms", "--max-energy 100mJ", "--max-memory 512MB --sort energy", "--min-throughput 1000")
LIMITED += ("--max-power 15W", "--max-cost 0.05 --sort cost", "--max-latency 20ms --max-energy 1J --sort latency")
RULES = ("energy({0}) < 1J", "latency({0}) < 5ms", "energy({0}) < 50mJ", "memory({0}) < 1GB", "edp({0}) < 1mJs")

# What is wrong in itself: the exit code and the one line on standard error are recorded.
WRONG = """compre resnet50|compare resnet5O|compare resnet50 --on h100_sx|compare resnet50 --batch 0|compare resnet50 --batch x
compare resnet50 --precision fp17|compare resnet50 --runtime vlm|compare resnet50@b8,b9|compare resnet50@q/h100_sxm
compare resnet50/h100_sxm,h100_sxm|compare resnet50/gpu,h100_sxm|compare resnet50?nokey=1|compare ?|tree resnet50 --by layer
tree resnet50 --on a10,t4|events resnet50 --node nowhere|why resnet50 --node layer9|search resnet50|search resnet50 --max-latency 5
search resnet50 --max-energy 5ms|explain resnet50 h100_sxm|explain resnet50 h100_sxm h100_sxm|explain resnet50 a b --metric speed
crossover conv2d kpu_t256|crossover conv2d kpu_t256 tpu_v4 --knob nofact|plot conv2d --plot pie|check conv2d|coefficients --on x
check conv2d --rule energy|check conv2d --rule "energy(x) < 1J"|check conv2d --rule "energy(h100_sxm) < 1s"|device|device nothing
device h100_sxm{units}|device h100_sxm{nofact*2}|device h100_sxm{units*0}|device h100_sxm{units*2|compare llama3_8b:decode,kv=-1
compare llama3_8b:decode,tp=7|compare llama3_8b:nothing=1|compare llama3_8b:request,in=5,kv=5|compare gemm:0x1x1|compare gemm:1x2
compare mlp:width=3|compare llama3_8b --image-size 224|compare resnet50 --sequence 12|compare llama3_8b:decode,ep=8|rank nomodel
rank --family none|rank --sort size|pareto resnet50 --batches 0|pareto resnet50 --precisions fp1|sweep resnet50 --batches ,
sweep resnet50 --image-sizes 5|design --base kpu_t256|design --base kpu_t256 --workload conv2d --knobs units|diff conv2d
diff a.json b.json|trace nothing.json --model conv2d --on t4|validate --data nothing.csv|cost conv2d --price h100_sxm
cost conv2d --electricity -1|cost conv2d --duty 2|compare conv2d --format xml|compare conv2d --nooption|memory conv2d --on jetson_nano:99w
knobs conv2d --on kpu_t256 --knob nothing|elasticity conv2d --on a10,t4|roofline|compare vgg16@i5|compare resnet50?limits=L<5
compare resnet50?pin=nothing@b8|compare conv2d --level all|compare conv2d --baseline nothing|models --format yaml|devices x
energy conv2d --top 0|compare  |report conv2d --on h100_sxm:30w|partition conv2d --on h100_sxm|advise conv2d --aim speed"""

# Of the catalogue, once each.
FIXED = """models|devices|models --format csv|devices --format csv|models --format text|devices --format text|validate --kernels
rank --on h100_sxm --family classification|rank --on kpu_t256 --family classification --sort latency --batch 8 --precision int8
rank --on hailo8 --family detection|rank --on a100_sxm4_80gb resnet50 vit_b_16 swin_t convnext_tiny --sort edp --precision fp16
rank --on coral_edge_tpu --family classification --precision int8 --sort throughput|rank --on tpu_v4 --family video
rank --on xeon_8490h --family segmentation --sort accuracy|rank --on jetson_nano:5w mobilenet_v2 mobilenet_v3_small squeezenet1_1
rank --on l4 llama3_8b mistral_7b qwen2_7b gemma2_9b --precision w4a16|rank --on eyeriss alexnet vgg16
sweep --all --batches 1 --precisions fp16 --on t4|sweep --all --batches 8 --precisions int8 --on kpu_t64
design --base kpu_t256 --workload conv2d --knobs units=64..512,array=8..32 --max-area 900mm2
design --base kpu_t256 --workload resnet50*2,bert_base --knobs units=64..1024,array=8..64 --max-area 700mm2 --metric energy
design --base h100_sxm --workload resnet18 --knobs units=64..256,memory_bandwidth=1T..4T --max-power 500W --metric latency
design --base tpu_v4 --workload vit_b_16 --knobs array=64..256 --how random --designs 30 --seed 5
design --base kpu_t64 --workload mobilenet_v2 --knobs units=16..256,clock_hz=0.5G..2G --how local --designs 40 --seed 3
search resnet50 --max-latency 5ms|pareto conv2d|sweep conv2d|cost resnet50|search mobilenet_v2 --max-energy 10mJ --power-modes"""
SLOW = ("validate", "validate --cross-validate", "validate --groups")

TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [],
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::{name}", "ts": at, "dur": dur, "pid": 1, "tid": 1, "args": {"Input Dims": dims}}
        for name, at, dur, dims in (
            ("conv2d", 1, 900, [[1, 64, 56, 56], [64, 64, 3, 3]]),
            ("batch_norm", 950, 80, [[1, 64, 56, 56], [64], [64], [64], [64]]),
            ("relu", 1050, 20, [[1, 64, 56, 56]]),
        )
    ],
}  # fmt: skip
# In the folder of each group.
FILES = {"trace.json": json.dumps(TRACE)}

# Groups whose later requests read what the first writes.
CHAINS = (
    "device h100_sxm{units*2,memory_bandwidth*1.5} --save twice.toml|device twice --devices-dir .|"
    "compare resnet50 --on twice,h100_sxm --devices-dir .|coefficients --on twice --devices-dir .|"
    "tree mobilenet_v2 --on twice --batch 8 --precision fp16 --devices-dir .|devices --devices-dir .",
    "device kpu_t256{units=300,array=24} --save other.toml|device other --devices-dir .|"
    "compare vit_b_16 --on other,kpu_t256,tpu_v4 --devices-dir .|knobs bert_base --on other --devices-dir .",
    "report resnet18 --on h100_sxm -o base.json|diff base.json resnet34 --on h100_sxm|"
    "diff base.json resnet18@b8 --rule \"change(energy) < 5%\"|diff base.json vgg11 --on t4",
    "tree conv2d --on t4 -o tree.json|diff tree.json conv2d:size=28 --on t4|compare vgg11 -o all.json|diff all.json vgg13",
    *(f"trace trace.json --model conv2d --on {d}|roofline conv2d?trace=trace.json --on {d}|"
      f"tree conv2d?trace=trace.json --on {d}" for d in ("xeon_8490h", "epyc_7763", "t4")),
)  # fmt: skip


def words(line: str) -> Argv:
    """Splits a line as a shell does, braces and all."""
    import shlex

    return shlex.split(line)


class Drawing:
    """Draws requests: what there is to draw from, and the random numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.devices = {each["id"]: each for each in ask("devices")["devices"]}
        self.models = [each for each in ask("models")["models"] if each["family"] != "block"]
        self.turn: list[str] = []

    def some(self, values: object, weight: float = 1.0) -> str:
        """Draws one of the values, or '' where `weight` leaves it out."""
        drawn, at = self.random.random() < weight, self.random.choice(list(values))
        return str(at) if drawn else ""

    def device(self, plain: bool = False) -> str:
        """Draws a device, each as often as any other: some in a power mode, some changed."""
        if not self.turn:
            self.turn = list(self.devices)
            self.random.shuffle(self.turn)
        name = self.turn.pop()
        modes = self.devices[name]["power_modes"]
        if modes and self.random.random() < 0.5:
            name += f":{self.random.choice(modes)}"
        if not plain and self.random.random() < 0.12:
            changes = WHAT_IFS + (KPU_WHAT_IFS if name.startswith("kpu") else ())
            name += f"{{{self.random.choice(changes)}}}"
        return name

    def several(self, least: int, most: int) -> str:
        chosen: dict[str, str] = {}
        for _ in range(self.random.randint(least, most)):
            name = self.device()
            chosen.setdefault(name.partition("{")[0].partition(":")[0], name)
        return ",".join(chosen.values())

    def scenario(self, language: bool) -> Argv:
        """Draws batch, precision, runtime and layout, each left out at times."""
        batch = self.some((2, 3, 4, 8, 16, 31, 64, 128, 256), 0.6)
        precision = self.some(WEIGHTS if language else PLAIN, 0.6)
        runtime = self.some(LANGUAGE_RUNTIMES if language else RUNTIMES, 0.2)
        layout = "" if language else self.some(("channels_last",), 0.2)
        pairs = (("--batch", batch), ("--precision", precision), ("--runtime", runtime), ("--layout", layout))
        found = [word for flag, value in pairs if value for word in (flag, value)]
        return found + (["--like-for-like"] if not runtime and self.random.random() < 0.06 else [])


def ask(*argv: str) -> dict[str, list[dict[str, object]]]:
    code, out, err = replay.run([*argv, "--format", "json"])
    assert code == 0, (argv, err)
    return json.loads(out)


def list_nodes(model: str) -> list[str]:
    """Lists some nodes of a model: subgraphs and operators."""
    leaves = replay.list_leaves(ask("tree", model, "--on", "h100_sxm"))
    return sorted({str(value) for path, value in leaves.items() if path.endswith(".id") and value})


# What is asked of a model, and how often: a function of what is drawn, the model, a device, whether it is a language
# model, and some nodes.
def list_kinds(d: Drawing, model: str, language: bool, nodes: list[str]) -> Iterator[tuple[float, Callable[[], str]]]:
    """Lists what may be asked of a model, with how often."""
    on = lambda: f"--on '{d.device()}'"  # noqa: E731
    many = lambda least, most: f"--on '{d.several(least, most)}'"  # noqa: E731
    node = lambda: f"--node '{d.some(nodes)}'" if nodes and d.random.random() < 0.5 else ""  # noqa: E731
    level = lambda: d.some(("--level detailed", "--level progression", "--level subgraph --metric energy"), 0.3)  # noqa: E731
    yield 6, lambda: f"compare '{model}' {many(3, 7)} {level()}"
    yield (
        4,
        lambda: (
            f"tree '{model}' {on()} --by {d.some(('module', 'kind') if language else ('module', 'subgraph', 'kind', 'kernel'))}"
        ),
    )
    yield 2, lambda: f"energy '{model}' {on()} --top {d.some((3, 10, 30))}"
    yield 1, lambda: f"edp '{model}' {on()}"
    yield 3, lambda: f"why '{model}' {on()} {node()}"
    yield 2, lambda: f"events '{model}' {on()} {node()} {d.some(('--dynamic',), 0.3)}"
    yield 1, lambda: f"mapping '{model}' {on()}"
    yield 1, lambda: f"memory '{model}' {on()}"
    yield 1, lambda: f"roofline '{model}' {on()}"
    yield 1, lambda: f"concurrency '{model}' {on()}"
    yield (
        1.5,
        lambda: (
            f"explain '{model}' '{d.device()}' '{d.device()}' --metric {d.some(('edp', 'energy', 'latency', 'memory'))}"
        ),
    )
    yield 1.5, lambda: f"plot '{model}' {many(1, 3)} --plot {d.some(PLOTS)}"
    yield 0.7, lambda: f"advise '{model}' {on()} --instead {d.several(2, 3)}"
    yield (
        1,
        lambda: (
            f"cost '{model}' {many(2, 4)} {d.some(('--electricity 0.3', '--duty 50%', '--overhead 1.5', '--price h100_sxm=30000'), 0.5)}"
        ),
    )
    yield (
        0.6,
        lambda: (
            f"pareto '{model}' {many(2, 3)} --batches 1,8,64 --precisions fp16,int8 {d.some(('--power-modes',), 0.3)}"
        ),
    )
    yield 0.8, lambda: f"search '{model}' {many(2, 4)} --batches 1,4,32 {d.some(LIMITED)}"
    yield 0.6, lambda: f"sweep '{model}' {many(2, 3)} --batches 1,16 --precisions fp32,bf16,int8"
    yield 0.5, lambda: f"knobs '{model}' {on()}"
    yield 0.5, lambda: f"elasticity '{model}' {on()}"
    yield (
        0.4,
        lambda: f"crossover '{model}' '{d.device()}' '{d.device()}' --metric {d.some(('latency', 'energy', 'edp'))}",
    )
    yield 1, lambda: f"check '{model}' --rule '{d.some(RULES).format(d.device(plain=True))}'"
    yield 0.25, lambda: f"report '{model}' {on()}" if not language else f"memory '{model}' {on()}"
    yield 0.3, lambda: f"graph '{model}' {on()}" if not language else f"mapping '{model}' {on()}"
    yield 0.5, lambda: f"diff '{model}' resnet18 {on()}" if not language else f"diff '{model}' gpt2 {on()}"


def list_of_model(d: Drawing, model: str, language: bool, count: int) -> list[Argv]:
    """Lists requests of one model."""
    nodes = (
        []
        if ":" in model or d.random.random() < 0.4
        else d.random.sample(found := list_nodes(model), min(6, len(found)))
    )
    kinds = list(list_kinds(d, model, language, nodes))
    made = [f"partition '{model}'", f"compare '{model}' --on '{d.several(6, 9)}'"]
    scenarios = [d.scenario(language) for _ in range(count // 3 + 1)]
    chosen = d.random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds], k=max(count - 3, 0))
    requests = [[*words(make()), *d.random.choice(scenarios)] for make in chosen]
    requests += [words(line) for line in made]
    settings = "".join(word + "," for word in ("b8", "fp16", d.some(("fused", "eager"))))
    named = model.replace(",", "%2C") if ":" in model else model
    keys = d.some(("metric=energy", "limits=L<5ms,E<1J", "rank=energy&metric=latency", "by=module"))
    requests.append(["compare", f"{named}@{settings[:-1]}/{d.several(2, 4)}?{keys}"])
    for argv in requests:
        form = d.some(("csv", "text", "md"), 0.04) or "json"
        argv += ["--format", form]
    return requests[:count]


def list_requests(count: int, seed: int) -> list[list[replay.Entry]]:
    """Lists groups of requests, `count` of them in all."""
    with replay.isolated():
        d = Drawing(seed)
        groups = [[words(line)] for line in SLOW]
        groups += [[words(line) for line in chain.split("|")] for chain in CHAINS]
        wrong = [line for line in WRONG.replace("\n", "|").split("|")]
        groups.append([words(line) for line in wrong])
        fixed = [words(line) for line in FIXED.replace("\n", "|").split("|")]
        groups += [fixed[at : at + 5] for at in range(0, len(fixed), 5)]
        catalogue = [["device", name] for name in d.devices]
        catalogue += [["device", f"{name}:{mode}"] for name, each in d.devices.items() for mode in each["power_modes"]]
        catalogue += [["coefficients", "--on", name, "--precision", d.some(PLAIN)] for name in d.devices]
        catalogue += [["device", f"{name}{{{d.some(WHAT_IFS)}}}"] for name in d.devices]
        groups += [catalogue[at : at + 50] for at in range(0, len(catalogue), 50)]
        groups += [
            [["compare", m, "--image-size", str(s)], ["tree", f"{m}@i{s}", "--on", "t4"]] for m, s in IMAGE_SIZES
        ]
        subjects = [(str(m["name"]), m["family"] == "language") for m in d.models]
        subjects += [(block, False) for block in BLOCKS]
        for name, language in list(subjects):
            phases = PHASES + (
                EXPERT_PHASES
                if any(x in name for x in ("moe", "deepseek", "mixtral", "maverick", "oss", "a3b", "a22b", "scout"))
                else ()
            )
            subjects += [(name + phase, True) for phase in d.random.sample(phases[1:], 2) if language]
        d.random.shuffle(subjects)
        left = max(count - sum(map(len, groups)), 0)
        for index, (name, language) in enumerate(subjects):
            share = (index + 1) * left // len(subjects) - index * left // len(subjects)
            if share:
                groups.append(list_of_model(d, name, language, share))
        head, tail = groups[: len(SLOW)], groups[len(SLOW) :]
        d.random.shuffle(tail)  # so that the first N of the file are of all kinds
    return [
        [
            {"group": at, "argv": argv if "--format" in argv or _writes(argv) else [*argv, "--format", "json"]}
            for argv in group
        ]
        for at, group in enumerate([*head, *tail])
    ]


def _writes(argv: Argv) -> bool:
    return bool({"-o", "--save"} & set(argv))


def write_files() -> None:
    """Writes the files that some requests read into the current folder."""
    for name, text in FILES.items():
        Path(name).write_text(text)
