"""The subject of a command: the state that its words describe, and the models that must be captured for it."""

import argparse
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from analysis.model.ir.workload import Workload, coverage
from analysis.model.names.model_ref import configuration_of_weights, user_target
from analysis.model.process.child_job import USER_LIMITS, ProcessLimits
from hardware import known_architectures as architectures
from hardware.base.errors import RequestError, split_list
from hwexplorer import engine, user_code
from hwexplorer.declare import Subject
from hwexplorer.options import Option
from hwexplorer.process.output import OutputError, Progress, say
from hwexplorer.settings import default_precision
from hwexplorer.state import State, is_result, parse, preferred, removed_note, replace, split_settings


def state_from_arguments(arguments: argparse.Namespace, subject: Subject) -> State:
    """Return the state that the model (or state string) and options describe. An option named like a field sets it."""
    values = vars(arguments)
    text = values.get("model")
    state = State()
    if text is not None:
        if not text.strip():
            raise RequestError("the model name is empty (hwexplorer models lists them)")
        model_name = text if is_result(text) else _user_model_name(text, arguments)
        state = State(model=model_name, precision=default_precision(model_name)) if model_name else parse(text)
        if not model_name and (note := removed_note(text)):
            say(note)
        for name in () if model_name else state.devices:  # a wrong device is an error even if --on names others
            engine.device(name)
    changes = {
        name: values[name]
        for name in State.__struct_fields__
        if values.get(name) is not None and name not in ("model", "on", "baseline")
    }
    changes |= _devices(values, state, subject)
    if values.get("node"):
        changes["at"] = values["node"]
    state = replace(state, **changes)
    if values.get("again"):
        engine.capture_again(state)
    return state


def _user_model_name(model: str, arguments: argparse.Namespace) -> str:
    """Return the complete name of the user's model that the words give, '' for a state string. Naming it here allows
    its code to run; a state string does so only with --run-code."""
    if engine.is_adopted(model):
        return model
    model = configuration_of_weights(model)
    is_target = user_target(model) is not None
    inputs = arguments.input or ()
    limits = ProcessLimits(
        arguments.time_limit or USER_LIMITS.seconds,
        arguments.memory_limit or USER_LIMITS.memory_bytes,
        arguments.show_output,
    )
    if is_target or inputs or arguments.batch_dim is not None:
        return user_code.resolve_model_name(model, inputs, arguments.batch_dim, limits, trusted=arguments.run_code)
    # `hf:` and a folder is not a state string: its slashes separate folders.
    if model.startswith("hf:") and not any(mark in model for mark in "@?%"):
        return model
    if arguments.run_code:
        user_code.allow(parse(model).model, limits)
    return ""


def option_value(option: Option, arguments: argparse.Namespace, subject: Subject) -> Any:
    """Return the value of an option. If it names another model, return the state of that model in the same scenario.
    Several words, or devices after --on, are those of sides to compare."""
    value = option.value_in(arguments)
    if not option.is_model:
        return value
    if isinstance(value, str):
        return state_from_arguments(argparse.Namespace(**{**vars(arguments), "model": value}), subject)
    devices = split_list(arguments.on or "")
    sides = tuple(value or (devices if len(devices) > 1 else ()))
    if len(sides) != 1 or _is_device(sides[0]):
        return sides
    return (state_from_arguments(argparse.Namespace(**{**vars(arguments), "model": sides[0]}), subject),)


def _is_device(text: str) -> bool:
    with suppress(RequestError):
        return bool(engine.device(split_settings(text)[0]))
    return False


def _devices(given: dict[str, Any], state: State, subject: Subject) -> dict[str, Any]:
    """Return the fields that `--on` and `--baseline` change."""
    changes: dict[str, Any] = {}
    devices = state.devices
    if given.get("on") is not None:
        names = tuple(split_list(given["on"]))
        if subject.several or (subject.compares and len(names) > 1):
            changes["devices"] = devices = names
        elif len(names) != 1:
            raise RequestError(f"{given['verb']} takes one device after --on, not {len(names)}")
        else:
            changes["devices"], changes["on"] = _with_device(names[0], devices)
    elif subject.everywhere and "/" not in (given.get("model") or ""):
        from hwexplorer import configurations  # not needed to start the screen

        changes["devices"] = devices = configurations.catalogue(given.get("on_paper", False))
    if given.get("baseline") is not None:
        changes["devices"], changes["baseline"] = _with_device(given["baseline"], devices)
    elif subject.several and "baseline=" not in (given.get("model") or ""):
        changes["baseline"] = _first_gpu(devices) or state.baseline
    return changes


def _first_gpu(devices: tuple[str, ...]) -> str:
    """Return the default baseline: the preferred device if it is a GPU, else the first GPU; '' without one."""
    candidates = (preferred(devices), *devices) if devices else ()
    return next((name for name in candidates if engine.device(name).architecture == architectures.BASELINE), "")


def _with_device(name: str, devices: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the devices including `name`, and its spelling among them: `gpu` and `h100_sxm` are the same device."""

    def identity(spelling: str) -> tuple[str, int]:
        """Return the key of a device and its count."""
        device_name, count = engine.split_count(spelling)
        return engine.device(device_name).key, count

    listed_name = next((other for other in devices if identity(other) == identity(name)), None)
    return (devices, listed_name) if listed_name is not None else ((*devices, name), name)


def prepare_models(states: Iterable[State], strict: bool = False) -> None:
    """Check the devices of each state, and capture its model if it must be. Raises RequestError, and OutputError if
    `strict` and an operator has no cost rule."""
    for state in states:
        name_by_key: dict[str, str] = {}
        for name in state.devices:
            known_name = name_by_key.setdefault(f"{engine.device(name).key}*{engine.count_devices(state, name)}", name)
            if known_name != name:
                raise RequestError(f"{known_name!r} and {name!r} are the same device: name it once")
        capture_model(state)
        if strict and (gap := uncovered_text(engine.captured_model(state))):
            raise OutputError(gap)


def with_fixed_batch(state: State, arguments: argparse.Namespace) -> State:
    """Return the state at its model's only batch if no other was asked for. Raises RequestError for a wrong length."""
    if is_result(state.model) or not engine.is_ready(state):
        return state
    lengths = engine.captured_model(state).defaults
    for name in ("sequence", "kv"):
        if getattr(arguments, name, None) is not None and name not in lengths:
            raise RequestError(f"{state.model} has no --{name}")
    fixed = engine.fixed_batch(state)
    is_asked = getattr(arguments, "batch", None) is not None or state.batch != State().batch
    return state if fixed is None or is_asked else replace(state, batch=fixed)


def capture_model(state: State) -> None:
    """Capture the model if it must be, with progress on a terminal."""
    if engine.is_ready(state):
        return
    with Progress() as progress:

        def show(phase: str, fraction: float) -> None:
            """Show the phase of a capture with its percentage."""
            progress.show(f"capturing: {phase} " + (f"{fraction * 100:3.0f} %" if fraction >= 0 else ""))

        engine.capture(state, show if progress.is_shown else None)


def uncovered_text(model: Workload) -> str:
    """Return in one line which operators have no cost rule; '' if all have one."""
    missing = coverage(model).missing
    if not missing:
        return ""
    missing_words = ", ".join(f"{name} ({count}x)" for name, count in missing[:8])
    many = sum(count for _, count in missing)
    return f"{model.name}: {many} of {model.n_operators} operators have no cost rule: {missing_words}"
