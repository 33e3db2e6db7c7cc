"""The command lines that start the servers of a deployment, from hardware/engines/runtimes.toml."""

from typing import Annotated

import msgspec

from analysis.document import column
from analysis.serving.deployment import Server
from hardware.base.file_access import read_records
from hardware.engines.runtime import PATH, schedulers

REPLICAS = "# start {dp} of them behind a load balancer"


class ServerFlags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words of one server; runtimes.toml explains them."""

    title: str
    vendors: tuple[str, ...]
    command: str
    tp: str
    pp: str
    dp: str
    ep: str
    attention_dp: str
    apart: str
    drafts: str
    formats: dict[str, str]
    source: str


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of a server that starts a deployment."""

    server: Annotated[str, column("Server")]
    command: Annotated[str, column("Command")]


def command_lines(server: Server, longest: int, drafts: int = 0) -> tuple[CommandLine, ...]:
    """Return the command line of each server that runs on these devices, in their layout, with the limits of the
    simulation, for requests of at most `longest` tokens, of which a draft model proposes `drafts` a step."""
    vendor = server.first.device.vendor
    return tuple(
        CommandLine(server=flags.title, command=_command(name, flags, server, longest, drafts))
        for name, flags in read_records(PATH, "servers", ServerFlags).items()
        if vendor in flags.vendors
    )


def _command(name: str, flags: ServerFlags, server: Server, longest: int, drafts: int) -> str:
    layout, scheduler, precision = server.layout, server.scheduler, server.first.scenario.precision
    spreads, each = layout.copies > 1, layout.copies if schedulers()[name].limits_each_copy else 1
    degrees = {name: value for name in ("tp", "pp", "ep") if (value := getattr(layout, name)) > 1}
    words = [flags.command, flags.formats.get(precision, f"# a checkpoint in {precision}")]
    words += [getattr(flags, name) for name in degrees if not (name == "ep" and spreads)]
    shares_experts = server.first.workload.routing is not None
    replicas = REPLICAS if shares_experts else flags.dp or REPLICAS
    words += [flags.attention_dp] * spreads + [replicas] * (layout.dp > 1) + [flags.apart] * (layout.prefill > 0)
    words += [flags.drafts] * (drafts > 0)
    # A shell ignores what follows a comment, so comments come last.
    flags_and_comments = [word.partition("# ")[::2] for word in words]
    line = " ".join(flag.strip() for flag, _ in flags_and_comments if flag)
    if comments := "; ".join(comment for _, comment in flags_and_comments if comment):
        line += f" # {comments}"
    return line.format(
        longest=longest,
        drafts=drafts,
        checked=drafts + 1,
        sequences=max(scheduler.max_sequences // each, 1),
        tokens=max(scheduler.max_tokens // layout.pp // each, 1),
        memory=scheduler.memory_share,
        **msgspec.structs.asdict(layout),
    )
