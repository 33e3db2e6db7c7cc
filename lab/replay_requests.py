"""The requests that lab/replay.py records: words of the command line, drawn at random from a seed.

A group is a model with some requests of it, or requests that follow from each other (a file is written, then read).
Names of models, devices, power modes and nodes are asked of the program.
"""

import json
import random
import shlex
from pathlib import Path
from typing import Any

from lab import replay


def _options(name: str, values: str) -> list[str]:
    return [f"--{name} {value}" for value in values.split()]


# What is drawn where a template has the name in braces; a word that may be left out is '' in part of the list.
DRAWN: dict[str, tuple[str, ...]] = {
    "batch": ("", "", "", *_options("batch", "2 3 4 8 16 31 64 256")),
    "layout": ("", "", "", "", "--layout channels_last"),
    "image_precision": ("", "", "", *_options("precision", "fp32 tf32 fp16 bf16 fp8 int8 int4")),
    "language_precision": ("", "", "", "", *_options(
        "precision", "w8a16 w8a8 w4a16 w4a8 nvfp4 mxfp4 q4_k_m q8_0 w4a16kv8 fp8kv16 fp16kv4 fp16"
    )),
    "image_runtime": (*[""] * 20, "--runtime fused", *_options(
        "runtime", "eager eager compiled fused fused tensorrt torch_compile onnxruntime openvino"
    )),
    "language_runtime": (*[""] * 20, "--runtime fused", *_options(
        "runtime", "eager fused transformers vllm tensorrt_llm llama_cpp ik_llama_cpp vllm_rocm xla"
    )),
    "format": ("csv", "text", "md", *["json"] * 60),
    "what_if": ("memory_bandwidth*2", "clock_hz*0.8", "units*2", "units*3,memory_bandwidth*1.5", "process_nm=7"),
    "kpu_what_if": ("units=512,process_nm=7,tile.mac:fp32=2pJ", "array=32x32", "scratchpad_bytes*2", "clock_hz*1.2"),
    "level": ("", "", "", "--level detailed", "--level subgraph --metric energy"),
    "image_by": ("module", "subgraph", "kind"),
    "language_by": ("module", "kind"),
    "metric": ("edp", "energy", "latency", "memory"),
    "plot": ("roofline", "batch"),
    "top": ("3", "10", "30"),
    "price": ("", "", "--electricity 0.3 --carbon 50", "--duty 50%", "--overhead 1.5 --lifetime 5"),
    "limit": ("--max-latency 5ms", "--max-energy 100mJ", "--max-memory 512MB --sort energy", "--min-throughput 1000",
              "--max-power 15W", "--max-cost 0.05 --sort cost", "--max-latency 20ms --max-energy 1J --sort latency"),
    "rule": ("energy({0}) < 1J", "latency({0}) < 5ms", "energy({0}) < 50mJ", "memory({0}) < 1GB", "edp({0}) < 1mJs"),
    "keys": ("metric=energy", "limits=L<5ms,E<1J", "rank=energy&metric=latency", "by=module"),
    "settings": ("b8,fp16", "b8,fp16,fused", "b32,eager", "int8,b4", "b16"),
}  # fmt: skip
# What is asked of a model, and how often. `{node}` is of the model, devices are drawn, each as often as any other.
KINDS: dict[str, float] = {
    "compare {model} --on {devices} {level}": 6,
    "compare {model}@{settings}/{devices}?{keys}": 1,
    "tree {model} --on {device} --by {by}": 4,
    "edp {model} --on {device} --top {top}": 2,
    "why {model} --on {device} {node}": 3,
    "events {model} --on {device} {node}": 2,
    "kernels {model} --on {device}": 2,
    "memory {model} --on {device}": 1,
    "structure {model} --on {device}": 1.4,
    "explain {model} {device} {device} --metric {metric}": 1.5,
    "plot {model} --on {devices} --plot {plot}": 1,
    "compare {model} --on {devices} --cost {price}": 1,
    "check {model} --rule '{rule}'": 1,
    "search {model} --on {devices} --batches 1,4,32 {limit}": 0.6,
    "sweep {model} --on {devices} --batches 1,16 --precisions fp32,bf16,int8": 0.5,
    "search {model} --on {devices} --batches 1,8,64 --precisions fp16,int8 --power-modes --front": 0.3,
    "advise {model} --on {device} --instead {devices}": 0.4,
    "tune {model} --on {device}": 0.3,
    "diff {model} {other} --on {device}": 0.4,
}
IMAGE_KINDS = {**KINDS, "report {model} --on {device}": 0.15, "graph {model} --on {device}": 0.3}
SCENARIO = {"image": "{batch} {precision} {runtime} {layout}", "language": "{batch} {precision} {runtime}"}
SHORT = """
resnet18 image | mobilenet_v2 image | squeezenet1_1 image | resnet_block image | gpt2:decode,kv=512 language |
pythia_70m:request,in=64,out=16 language
"""
BLOCKS = """
mlp:hidden=512 | conv2d:size=14,out=256 | resnet_block:channels=128,size=28 | attention_head:sequence=1024 | pooling |
conv2d | gemm:8192x8192x8192 | gemm:M=1,N=4096,K=4096 | gemm:17x33x65 | transformer_block:sequence=64,heads=8 |
layer_norm | mlp | gemm | depthwise_separable | resnet_block | transformer_block | decoder:hidden=1024,layers=4 |
encoder:layers=6,sequence=128
"""
PHASES = """
:decode,kv=512 | :decode,kv=4096 | :decode,kv=32768,tp=8 | :request,in=512,out=128 | :sequence=2048 |
:sequence=64,kv=64 | :request,in=128,out=64,tp=2 | :decode,kv=1024,tp=4,link=100
"""
EXPERTS = ":decode,kv=2048,ep=8 | :decode,tp=8,ep=8 | :sequence=1024,ep=4 | :request,in=256,out=32,tp=4,ep=4"
IMAGE_SIZES = {"resnet18": 192, "mobilenet_v2": 160, "efficientnet_b0": 256, "vgg11": 96, "densenet121": 128}

# What is wrong in itself: the exit code and the one line on standard error are recorded.
WRONG = """
compre resnet50 | compare resnet5O | compare resnet50 --on h100_sx | compare resnet50 --batch 0 |
compare resnet50 --batch x | compare resnet50 --precision fp17 | compare resnet50 --runtime vlm |
compare resnet50@b8,b9 | compare resnet50@q/h100_sxm | compare resnet50/h100_sxm,h100_sxm |
compare resnet50/gpu,h100_sxm | compare resnet50?nokey=1 | compare ? | tree resnet50 --by layer |
tree resnet50 --on a10,t4 | events resnet50 --node nowhere | why resnet50 --node layer9 | search resnet50 |
explain resnet50 a10 | search resnet50 --max-energy 5ms | explain resnet50 a10 a10 |
explain resnet50 a10 t4 --metric speed | devices x |
plot conv2d --plot pie | check conv2d |
check conv2d --rule energy | check conv2d --rule 'energy(x) < 1J' | check conv2d --rule 'energy(a10) < 1s' |
devices nothing | devices h100_sxm{units} | devices h100_sxm{nofact*2} | devices h100_sxm{units*0} |
devices h100_sxm{units*2 | models nomodel --on l4 | compare llama3_8b:decode,kv=-1 | compare llama3_8b:decode,tp=7 |
compare llama3_8b:nothing=1 | compare gemm:0x1x1 | compare gemm:1x2 | compare llama3_8b:request,in=5,kv=5 |
compare mlp:width=3 | compare llama3_8b --image-size 224 | compare resnet50 --sequence 12 |
compare llama3_8b:decode,ep=8 | models --family none --on l4 | models --sort size --on l4 |
search resnet50 --front --batches 0 |
search resnet50 --front --precisions fp1 | sweep resnet50 --batches , | design --base kpu_t256 |
design --base kpu_t256 --workload conv2d --knobs units | diff conv2d | diff a.json b.json |
trace nothing.json --model conv2d --on t4 | validate --data nothing.csv | compare conv2d --price h100_sxm |
compare conv2d --electricity -1 | compare conv2d --duty 2 | compare conv2d --format xml | compare conv2d --nooption |
edp conv2d --top 0 | memory conv2d --on jetson_nano:99w | tune conv2d --on kpu_t256 --knob nothing | kernels |
compare vgg16@i5 | compare '' | compare resnet50?limits=L<5 | compare resnet50?pin=nothing@b8 |
compare conv2d --level all | models --format yaml | devices x | report conv2d --on h100_sxm:30w |
structure conv2d --node relu | advise conv2d --aim speed
"""
ONCE = """
models | devices | models --format csv | devices --format csv | models --format text | devices --format text |
models --on h100_sxm --family segmentation |
models --on kpu_t256 --family classification --sort latency --batch 8 --precision int8 |
models --on hailo8 --family detection |
models --on a100_sxm4_80gb resnet50 vit_b_16 swin_t convnext_tiny --sort edp --precision fp16 |
models --on coral_edge_tpu --family segmentation --precision int8 --sort throughput |
models --on tpu_v4 --family video |
models --on xeon_8490h --family segmentation --sort accuracy | models --on jetson_nano:5w mobilenet_v2 squeezenet1_1 |
models --on l4 llama3_8b mistral_7b qwen2_7b gemma2_9b --precision w4a16 | models --on kpu_t64 alexnet |
sweep --all --workers 1 --batches 1 --precisions fp16 --on t4 |
sweep --all --workers 1 --batches 8 --precisions int8 --on kpu_t64 |
design --base kpu_t256 --workload conv2d --knobs units=64..512,array=8..32 --max-area 900mm2 |
design --base kpu_t256 --workload resnet50*2,bert_base --knobs units=64..1024,array=8..64 --max-area 700mm2
--metric energy |
design --base h100_sxm --workload resnet18 --knobs units=64..256,memory_bandwidth=1T..4T --max-power 500W
--metric latency |
design --base tpu_v4 --workload vit_b_16 --knobs array=64..256 |
design --base kpu_t64 --workload mobilenet_v2 --knobs units=16..256,clock_hz=0.5G..2G |
search resnet50 --max-latency 5ms | search conv2d --front | sweep conv2d | compare resnet50 --cost
"""
SLOW = ("validate", "validate --cross-validate")
# Later requests of a group read what the first writes, or the trace that lies in each folder.
CHAINS = """
devices h100_sxm{units*2,memory_bandwidth*1.5} | tree mobilenet_v2 --on h100_sxm{units*2} --batch 8 |
device kpu_t256{units=300,array=16x16} | devices kpu_t256{units=300,array=16x16} --precision int8 |
tune bert_base --on kpu_t256{units=300,array=16x16} | report resnet18 --on h100_sxm -o base.json |
diff base.json resnet34 --on h100_sxm | diff base.json vgg11 --on t4 |
diff base.json resnet18@b8 --rule 'change(energy) < 5%' | tree conv2d --on t4 -o tree.json |
diff tree.json conv2d:size=28 --on t4 | trace trace.json --model conv2d --on xeon_8490h |
trace trace.json --model conv2d --on epyc_7763 | kernels conv2d?trace=trace.json |
tree conv2d?trace=trace.json --on xeon_8490h | kernels conv2d?trace=trace.json --on t4 |
trace trace.json --model mlp --on t4
"""
TRACED = (
    ("conv2d", 900, [[1, 64, 56, 56], [64, 64, 3, 3]]),
    ("batch_norm", 80, [[1, 64, 56, 56], [64]]),
    ("relu", 20, [[1, 64, 56, 56]]),
)


def write_files() -> None:
    """Writes the trace into the current folder, as torch.profiler does."""
    call = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    calls = [
        {**call, "name": f"aten::{name}", "ts": 1000 * at, "dur": duration, "args": {"Input Dims": dims}}
        for at, (name, duration, dims) in enumerate(TRACED)
    ]
    written = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": calls}
    Path("trace.json").write_text(json.dumps(written))


def ask(*argv: str) -> Any:
    """Asks the program for a document."""
    code, out, err = replay.run([*argv, "--format", "json"])
    assert code == 0, (argv, err)
    return json.loads(out)


def listed(text: str) -> list[str]:
    """Lists what bars separate in a text of some lines."""
    return [part.strip() for part in text.replace("\n", " ").split("|")]


def split(lines: str, size: int = 1000) -> list[list[list[str]]]:
    """Splits a text of requests into groups of so many."""
    requests = [shlex.split(each) for each in listed(lines)]
    return [requests[at : at + size] for at in range(0, len(requests), size)]


class Drawing:
    """Draws what a template names in braces."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        catalogue = {each["id"]: each for each in ask("devices")["devices"]}
        self.modes = {name: each["power_modes"] for name, each in catalogue.items()}
        self.turn: list[str] = []
        self.model, self.nodes, self.family = "", [""], "image"

    def __getitem__(self, name: str) -> str:
        """Draws by name: `model`, `device` .., or one of a list."""
        if name in ("model", "device", "devices", "node", "other", "rule"):
            drawn: str = getattr(self, f"_{name}")()
            return drawn
        return self.random.choice(DRAWN.get(name) or DRAWN[f"{self.family}_{name}"])

    def fill(self, template: str) -> list[str]:
        """Fills a template in and splits it into words."""
        return shlex.split(template.format_map(self))

    def _model(self) -> str:
        return self.model

    def _device(self) -> str:
        """Draws each device as often as any other: some in a power mode, some changed."""
        if not self.turn:
            self.turn = list(self.modes)
            self.random.shuffle(self.turn)
        name = self.turn.pop()
        mode = self.random.choice(["", *(f":{mode}" for mode in self.modes[name])])
        own = f"{name.partition('_')[0]}_what_if"  # of a class of devices
        changes = self[own if own in DRAWN else "what_if"]
        return name + mode + (f"{{{changes}}}" if self.random.random() < 0.12 else "")

    def _devices(self) -> str:
        """Draws two to six devices, no chip twice."""
        drawn = (self._device() for _ in range(self.random.randint(2, 6)))
        return ",".join({name.partition("{")[0].partition(":")[0]: name for name in drawn}.values())

    def _node(self) -> str:
        return self.random.choice(["", f"--node {self.random.choice(self.nodes)}"]) if self.nodes else ""

    def _other(self) -> str:
        return "resnet18" if self.family == "image" else "gpt2"

    def _rule(self) -> str:
        return self.random.choice(DRAWN["rule"]).format(self._device().partition("{")[0])

    def of_model(self, model: str, family: str, count: int = 0) -> list[list[str]]:
        """Draws requests of one model, in a few scenarios; without a count one of each kind."""
        self.model, self.family, self.nodes = model, family, []
        if ":" not in model and self.random.random() < 0.5:
            leaves = replay.list_leaves(ask("tree", model, "--on", "h100_sxm"))
            self.nodes = sorted({value for path, value in leaves.items() if path.endswith(".id") and value})
        kinds = IMAGE_KINDS if family == "image" else KINDS
        drawn = self.random.choices(list(kinds), list(kinds.values()), k=count) or list(kinds)
        scenarios = [self.fill(SCENARIO[family]) for _ in range(len(drawn) // 3 + 1)]
        # Settings of a state string follow its model, and `check` is about several: words after them are wrong.
        plain = ("compare {model}@", "check")
        return [self.fill(each) + ([] if each.startswith(plain) else self.random.choice(scenarios)) for each in drawn]


def list_subjects(d: Drawing) -> list[tuple[str, str]]:
    """Lists models and what is asked of language models: name, family."""
    subjects = [(name, "language" if "coder" in name else "image") for name in listed(BLOCKS)]
    for model in ask("models")["models"]:
        name, is_language = model["name"], model["family"] == "language"
        subjects.append((name, "language" if is_language else "image"))
        is_mixture = any(word in name for word in ("moe", "deepseek", "mixtral", "llama4", "oss", "_a3b", "_a22b"))
        phases = d.random.sample(listed(PHASES), 1) + (d.random.sample(listed(EXPERTS), 2) if is_mixture else [])
        subjects += [(name + phase, "language") for phase in phases if is_language]
    return list(dict.fromkeys(subjects))


def list_requests(count: int, seed: int) -> list[list[dict[str, Any]]]:
    """Lists groups of requests, `count` of them in all; each tells its group."""
    with replay.isolated():
        d = Drawing(seed)
        every = list(d.modes)
        catalogue = [f"devices {name}" for name in every]
        catalogue += [f"devices {name}:{mode}" for name, modes in d.modes.items() for mode in modes]
        catalogue += [" ".join(d.fill(f"devices {name}{{{{{{what_if}}}}}}")) for name in every]
        catalogue += [" ".join(d.fill(f"devices {name} {{image_precision}}")) for name in every]
        groups = [*split("|".join(catalogue), 50), *split(WRONG), *split(ONCE, 5), *split(CHAINS)]
        for name, size in IMAGE_SIZES.items():
            groups += split(f"compare {name} --image-size {size}|tree {name}@i{size} --on t4")
        subjects = list_subjects(d)
        d.random.shuffle(subjects)
        left = max(count - len(SLOW) - sum(map(len, groups)), 0)
        for index, subject in enumerate(subjects):
            share = (index + 1) * left // len(subjects) - index * left // len(subjects)
            groups += [d.of_model(*subject, share)] if share else []
        d.random.shuffle(groups)  # the first N of them are of all kinds
        groups = [[argv + _format(argv, d) for argv in group] for group in [*split("|".join(SLOW), 1), *groups]]
        # What is slow is not among the first, for `compare --count`, nor the last, which one process would do alone.
        at = len(groups) * 3 // 5
        groups = [*groups[len(SLOW) : at], *groups[: len(SLOW)], *groups[at:]]
        return [[{"group": index, "argv": argv} for argv in group] for index, group in enumerate(groups)]


def list_short(seed: int) -> list[dict[str, Any]]:
    """Lists one request of each kind of a few small models, and some others."""
    d = Drawing(seed)
    models = (each.split() for each in listed(SHORT))
    requests = [argv for model, family in models for argv in d.of_model(model, family)]
    requests += [d.fill(each) for each in ["devices {device}"] * 24]
    requests += split(WRONG)[0][::8]
    requests += [argv for argv in split(ONCE)[0] if argv[0] in ("models", "devices", "validate", "design", "rank")][::2]
    return [{"group": 0, "argv": argv + ([] if "--format" in argv else ["--format", "json"])} for argv in requests]


def _format(argv: list[str], d: Drawing) -> list[str]:
    """Draws the format of what prints and says no other."""
    return [] if {"-o", "--format"} & set(argv) else ["--format", d["format"]]
