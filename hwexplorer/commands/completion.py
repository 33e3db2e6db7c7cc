"""What a shell completes: `source <(hwexplorer completion bash)`, zsh alike; `hwexplorer completion fish | source`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from hardware import precision as formats
from hwexplorer import options, registry
from hwexplorer.declare import Verb
from hwexplorer.options import Option, option
from hwexplorer.process import output

SHELLS = ("bash", "zsh", "fish")
FILES = ("<files>",)


def script(shell: str) -> str:
    """The script of a shell, made of the verbs, their options, and the models and devices that are known by name."""
    if shell == "fish":
        return "\n".join(_fish()) + "\n"
    zsh = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
    return zsh * (shell == "zsh") + "\n".join(_bash()) + "\n"


def values(of: Option) -> tuple[str, ...]:
    """What may stand for the value of an option; FILES for names of files, nothing where it is free."""
    metavar, convert = str(of.settings.get("metavar") or ""), of.settings.get("type")
    if choices := of.settings.get("choices"):
        return tuple(map(str, choices))
    if of.is_model or metavar in ("MODEL", "M,..", "TARGET"):
        return ("<models>",)
    if metavar.startswith("DEV") or (of.is_word and of.name in ("device", "a", "b")):
        return ("<devices>",)
    if convert is options.precisions or of.name == "precision":
        return formats.NAMES
    return FILES if convert is Path or metavar in ("FILE", "DIR") else ()


def _known() -> dict[str, tuple[str, ...]]:
    """The lists that many options share."""
    from analysis.model.names import aliases, model_ref
    from hardware.architectures import known_architectures as architectures
    from hardware.device import load_devices
    from hwexplorer import engine

    devices = tuple(device.key for device in load_devices(engine.folders())[0])
    return {"<models>": (*model_ref.names(), *aliases.names()), "<devices>": (*architectures.classes(), *devices)}


def _takes_value(of: Option) -> bool:
    return not str(of.settings.get("action", "")).startswith("store_")


def _by_verb() -> Iterator[tuple[str, tuple[Option, ...]]]:
    for name in registry.names():
        yield name, (*registry.load(name).all_options(), options.DEVICES_DIR)


def _bash() -> Iterator[str]:
    """One function; `${cur##*,}` is what stands after the last comma of a list."""
    known = _known()
    yield "_hwexplorer() {"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" verb="${COMP_WORDS[1]}" list=""'
    yield f"  local verbs={quote(' '.join(registry.names()))}"
    yield f"  local models={quote(' '.join(known['<models>']))}"
    yield f"  local devices={quote(' '.join(known['<devices>']))}"
    yield '  case " $verbs " in *" $verb "*) ;; *) verb=open ;; esac'
    yield '  case "$verb:$prev" in'
    everywhere = _same_everywhere()
    for flag, told in everywhere.items():
        yield f"    *:{flag}) list={_listed(told)} ;;"
    for verb, own in _by_verb():
        for each in own:
            for flag in each.flags:
                if flag.startswith("-") and _takes_value(each) and flag not in everywhere:
                    yield f"    {verb}:{flag}) list={_listed(values(each))} ;;"
    yield '    *) case "$cur" in'
    yield '      -*) case "$verb" in'
    for verb, own in _by_verb():
        flags = " ".join(flag for each in own for flag in each.flags if flag.startswith("--"))
        yield f"        {verb}) list={quote(flags + ' --help')} ;;"
    yield "      esac ;;"
    yield '      *) if [ "$COMP_CWORD" -eq 1 ]; then list="$verbs $models"; else case "$verb" in'
    for verb, own in _by_verb():
        words = [values(each) for each in own if each.is_word]
        yield f"        {verb}) list={_listed(next(filter(None, words), ()))} ;;"
    yield "      esac; fi ;;"
    yield "    esac ;;"
    yield "  esac"
    yield f'  if [ "$list" = {quote(FILES[0])} ]; then COMPREPLY=($(compgen -f -- "$cur")); return; fi'
    yield '  COMPREPLY=($(compgen -P "${cur%"${cur##*,}"}" -W "$list" -- "${cur##*,}"))'
    yield "}"
    yield "complete -o default -F _hwexplorer hwexplorer"


def _same_everywhere() -> dict[str, tuple[str, ...]]:
    """Options that take the same values with every verb that has them."""
    told: dict[str, set[tuple[str, ...]]] = {}
    for _, own in _by_verb():
        for each in own:
            for flag in each.flags:
                if flag.startswith("-"):
                    told.setdefault(flag, set()).add(values(each) if _takes_value(each) else ("<none>",))
    return {flag: next(iter(kinds)) for flag, kinds in told.items() if len(kinds) == 1 and kinds != {("<none>",)}}


def _listed(told: tuple[str, ...], prefix: str = "") -> str:
    if told in (("<models>",), ("<devices>",)):
        return f'"${prefix}{told[0].strip("<>")}"'
    return quote(" ".join(told))


def _fish() -> Iterator[str]:
    known = _known()
    yield "complete -c hwexplorer -f"
    for name, told in known.items():
        yield f"set -g __hwexplorer_{name.strip('<>')} {' '.join(map(quote, told))}"
    for verb, line in registry.helps().items():
        yield f"complete -c hwexplorer -n __fish_use_subcommand -a {verb} -d {quote(line)}"
    yield 'complete -c hwexplorer -n __fish_use_subcommand -a "$__hwexplorer_models"'
    for verb, own in _by_verb():
        head = f"complete -c hwexplorer -n '__fish_seen_subcommand_from {verb}'"
        for each in own:
            told = values(each)
            shown = "-F" if told == FILES else f"-a {_listed(told, '__hwexplorer_')}" if told else ""
            help = quote(each.help.replace("%%", "%"))
            if each.is_word:
                yield f"{head} {shown}".rstrip()
                continue
            flags = " ".join(f"-l {flag[2:]}" if flag[:2] == "--" else f"-s {flag[1:]}" for flag in each.flags)
            needs = ("-r" if told == FILES else "-x") if _takes_value(each) else ""
            yield " ".join(filter(None, (head, flags, needs, shown if _takes_value(each) else "", "-d", help)))


def _run(arguments: argparse.Namespace) -> None:
    output.put(script(arguments.shell))


VERB = Verb(
    options=(
        option(
            "shell",
            nargs="?",
            default=SHELLS[0],
            choices=SHELLS,
            metavar="SHELL",
            help=f"{', '.join(SHELLS)} (default bash)",
        ),
    ),
    run=_run,
    shown=SHELLS,
)
