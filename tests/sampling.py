"""Cases of tests: many in one test, or the first few in the quick suite and the rest in `make test-slow`."""

import functools
import inspect
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import pytest

slow = pytest.mark.slow
_PARAM = type(pytest.param())
Test = Callable[..., None]


def first(values: Sequence[Any], count: int) -> list[Any]:
    """Return the values as cases of `parametrize`; those after the first `count` are marked slow."""
    return [value if place < count else _marked(value) for place, value in enumerate(values)]


def every(nth: int) -> Callable[[Test], Test]:
    """Give a test `nth`: its quick run takes every nth of a long list, the one of `make test-slow` takes all."""
    marks = pytest.mark.parametrize("nth", [pytest.param(nth, id="part"), pytest.param(1, id="all", marks=slow)])
    return cast("Callable[[Test], Test]", marks)


def for_each(names: str | tuple[str, ...], cases: Collection[Any]) -> Callable[[Test], Test]:
    """Run all cases in one test, which names each case that fails. Use it like `parametrize`, for cases that take
    milliseconds and share their fixtures: a test of its own costs each of them 4 ms more."""
    arguments = (names,) if isinstance(names, str) else names
    cases = list(cases)
    assert not any(isinstance(case, _PARAM) and case.marks for case in cases), "a mark is of a test, not of a case"

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run_cases(**fixtures: Any) -> None:
            assert cases, "there are no cases"
            failures: dict[str, Exception] = {}
            skipped = 0
            for case in cases:
                values = case if len(arguments) > 1 or isinstance(case, _PARAM) else (case,)
                values = values.values if isinstance(values, _PARAM) else values
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except Exception as error:
                    failures[" ".join(map(_name, values))] = error
                except pytest.skip.Exception:
                    skipped += 1
            if failures:
                lines = [f"[{name}] {_describe(error)}" for name, error in failures.items()]
                first_error = next(iter(failures.values()))
                raise AssertionError(f"{len(lines)} of {len(cases)} cases fail\n" + "\n".join(lines)) from first_error
            if skipped == len(cases):
                pytest.skip("every case is skipped")

        kept = [each for name, each in signature.parameters.items() if name not in arguments]
        run_cases.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_cases

    return decorate


def _name(value: Any) -> str:
    return str(getattr(value, "id", value))[:60]


def _describe(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{place.filename.rpartition('/')[2]}:{place.lineno} {type(error).__name__}: {str(error)[:600]}"


def _marked(value: Any) -> Any:
    if isinstance(value, _PARAM):
        return pytest.param(*value.values, marks=(*value.marks, slow), id=value.id)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=slow)
