"""State strings: from links, sessions and the command line. What is read can be written, and comes back the same."""

from collections.abc import Iterator
from random import Random

from hardware.errors import RequestError
from hardware.precision import NAMES
from hwexplorer import settings, state
from tests.fuzz import mutate
from tests.fuzz.running import refused

SEEDS = (
    "resnet50",
    "resnet50@b8,fp16,fused/h100_sxm,jetson_agx_orin:30w?at=layer3.2.conv2&sort=share&pin=tpu_v4@b8,fp16",
    "resnet18@b64,int8,eager,channels_last,i320/xeon_8490h,t4?on=t4&baseline=xeon_8490h&pane=plot&plot=pareto&zoom=1",
    "llama3_8b:decode,kv=4096@fp16,s2048,kv4096/h100_sxm?find=share%3E5&filter=vit&descending=0&metric=energy",
    "gemm:M=512,N=512,K=512/cpu,gpu?open=a.b,c%2Fd&rank=energy&rank_reverse=1&heat=1&diff=0",
    "resnet18/h100_sxm@400W,l4@50W@1.4GHz?on=l4@50W@1.4GHz&pin=resnet50/h100_sxm@400W@b8",
    "%2Ftmp%2Fnet.py:make?pin=resnet18/tpu_v4@b8&at=x/~more",
)
WORDS = (
    *NAMES,
    *settings.EXECUTIONS,
    *settings.LAYOUTS,
    *state.PANES,
    *state.METRICS,
    *state.SORTS,
    *state.PLOTS,
    *state.RANKS,
    *(f"&{key}=" for key in ("on", "at", "pin", "open", "find", "fold", "zoom", "baseline", "rank", "heat")),
    *("@b8", "@i0", "@kv0", "@s1", "b4096", "/h100_sxm", "@400W", ",tpu_v4", "?", "~more", "resnet18/t4@b2"),
)


def mutations(random: Random) -> Iterator[str]:
    return mutate.texts(random, SEEDS, WORDS)


def survive(text: str) -> bool:
    try:
        read = state.parse(text)
    except RequestError as error:
        return refused(error)
    written = state.format(read)
    assert written.isprintable(), "a state string that cannot be shown"
    assert state.parse(written) == read, "read back it is another"
    assert state.format(state.parse(written)) == written
    state.pinned(read)
    return True
