"""Values of options and arguments: whole numbers are written as in files (docs/values.md), where Python would read 010
and 1_0 too, and no refusal repeats the value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from typing import Any

import typer

_WHOLE, _NUMBER = {"int", "int range"}, {"float", "float range"}
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def read_strictly(parameters: Iterable[Any]) -> None:
    """Let these options and arguments read numbers and choices so."""
    for parameter in parameters:
        if parameter.type.name in {*_WHOLE, *_NUMBER, "choice"} and not hasattr(parameter.type, "rule"):
            parameter.type = _strict(parameter.type)


def read_all_strictly(command: Any) -> None:
    """The same for a command and those below it."""
    read_strictly(command.params)
    for below in getattr(command, "commands", {}).values():
        read_all_strictly(below)


def _strict(kind: Any) -> Any:
    strict, convert = copy(kind), kind.convert
    strict.rule = _rule_of(kind)

    def read(value: Any, parameter: Any, ctx: Any) -> Any:
        if isinstance(value, str) and not _is_written_as_in_files(kind.name, value):
            kind.fail(strict.rule, parameter, ctx)
        try:
            return convert(value, parameter, ctx)
        except typer.BadParameter:
            pass
        return kind.fail(strict.rule, parameter, ctx)

    strict.convert = read
    return strict


def _is_written_as_in_files(name: str, text: str) -> bool:
    # What Python reads as a whole number and writes back as it was: without the import of the reader of files.
    if name in _WHOLE:
        return text.removeprefix("-").isdecimal() and text == str(int(text))
    return name not in _NUMBER or _DECIMAL.fullmatch(text) is not None


def _rule_of(kind: Any) -> str:
    if kind.name == "choice":
        return f"must be one of {', '.join(str(getattr(each, 'value', each)) for each in kind.choices)}."
    noun, example = ("whole number", "10") if kind.name in _WHOLE else ("number", "10 or 0.5")
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is None and most is None:
        return f"must be a {noun}, as {example}."
    bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    return f"must be a {noun}, as {example}. Allowed is {' and '.join(bounds)}."
