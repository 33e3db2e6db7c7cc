"""`hwexplorer check`: rules that must hold, for CI. Exit 1 where one is broken."""

from __future__ import annotations

import argparse
import sys

from hwexplorer.commands import common


class RuleFailed(common.OutputError):
    """A rule is broken. The message says by which figure; the output is complete."""


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV")
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="RULE",
        help='as "energy(h100_sxm) < 50mJ", "share(layer4.*) < 0.5"',
    )
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from analysis.decide.rules import RuleError, check, parse_rule
    from hwexplorer import engine
    from hwexplorer.views import check as views

    try:
        rules = [parse_rule(text) for text in arguments.rule]
    except RuleError as error:
        if sys.stderr is not None:
            print(_safe(error.picture()), file=sys.stderr)
        raise
    state = common.state(arguments)
    common.prepare(state)
    found = check(rules, lambda name: engine.result(state, name))
    common.show(arguments, lambda: views.view(found), lambda: found)
    broken = [finding.says for finding in found.findings if not finding.holds]
    if broken:
        raise RuleFailed("; ".join(broken))


def _safe(picture: str) -> str:
    """The rule and its caret, each as one line that cannot steer the terminal."""
    from hwexplorer.format import safe

    rule, caret = picture.rsplit("\n", 1)
    return f"{safe(' '.join(rule.splitlines()))}\n{caret}"
