"""Complete words: `source <(hwexplorer completion bash)`, zsh alike; `hwexplorer completion fish | source`."""

import argparse
import os
from collections.abc import Iterable

from hardware import precision as formats
from hwexplorer import options, registry
from hwexplorer.declare import Verb
from hwexplorer.options import Option, option
from hwexplorer.process import output

WORDS = "HWEXPLORER_WORDS"  # the words typed so far, one per line, set by the scripts
_BASH = f"""_hwexplorer() {{
  local IFS=$'\\n'
  COMPREPLY=($({WORDS}="${{COMP_WORDS[*]:1:COMP_CWORD}}" hwexplorer completion bash 2>/dev/null))
}}
complete -o default -F _hwexplorer hwexplorer
"""
SCRIPTS = {
    "bash": _BASH,
    "zsh": f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": f"""function __hwexplorer
  set -lx {WORDS} (string join \\n -- (commandline -opc)[2..-1] (commandline -ct) | string collect)
  hwexplorer completion fish
end
complete -c hwexplorer -a '(__hwexplorer)'
""",
}


def candidates(words: list[str]) -> list[str]:
    """Return the completions of the last word; empty if it may be any text or a file name."""
    *earlier_words, current = words or [""]
    if not earlier_words and not current.startswith("-"):
        return _fitting((*registry.verbs(), *registry.names(), *_models()), current)
    verb, *rest = earlier_words if earlier_words and registry.is_verb(earlier_words[0]) else ["open", *earlier_words]
    members = registry.sections(verb)
    if members and rest and rest[0] in members:
        verb, *rest = rest
        members = ()
    verb_options = (*registry.load(verb).all_options(), options.DEVICES_DIR) if verb in registry.names() else ()
    pending_option = next((word for word in verb_options if rest and rest[-1] in word.flags and word.takes_value), None)
    if pending_option is not None:
        return _fitting(option_values(pending_option), current)
    if current.startswith("-"):
        return _fitting((*(flag for word in verb_options for flag in word.long_flags), "--help"), current)
    sections = () if rest else tuple(name for name in members if name != verb)
    words_of_verb = next(filter(None, (option_values(word) for word in verb_options if word.is_word)), ())
    return _fitting((*sections, *words_of_verb), current)


def _fitting(words: Iterable[str], current: str) -> list[str]:
    """Return the words that begin with the text after the last comma, each after the text before it."""
    head, comma, start = current.rpartition(",")
    return list(dict.fromkeys(f"{head}{comma}{word}" for word in words if word.startswith(start)))


def option_values(option: Option) -> tuple[str, ...]:
    """Return the values to suggest for an option; empty if any text or a file is allowed."""
    metavar, convert = str(option.settings.get("metavar") or ""), option.settings.get("type")
    if choices := option.settings.get("choices"):
        return tuple(map(str, choices))
    if option.is_model or metavar in ("MODEL", "M,..", "TARGET"):
        return _models()
    if metavar.startswith("DEV") or (option.is_word and option.name in ("device", "a", "b")):
        return _devices()
    return formats.NAMES if convert is options.precisions or option.name == "precision" else ()


def _models() -> tuple[str, ...]:
    from analysis.model.names import aliases, model_ref

    return (*model_ref.names(), *aliases.names())


def _devices() -> tuple[str, ...]:
    from hardware import known_architectures
    from hardware.device_catalog import load_devices
    from hwexplorer import engine

    return (*known_architectures.classes(), *(device.key for device in load_devices(engine.folders())[0]))


def _run(arguments: argparse.Namespace) -> None:
    if WORDS in os.environ:
        output.put("".join(f"{word}\n" for word in candidates(os.environ[WORDS].split("\n"))))
    else:
        output.put(SCRIPTS[arguments.shell])


VERB = Verb(
    options=(
        option("shell", nargs="?", default="bash", choices=tuple(SCRIPTS), metavar="SHELL",
               help=f"{', '.join(SCRIPTS)} (default bash)"),
    ),
    run=_run,
    shown=tuple(SCRIPTS),
)  # fmt: skip
