"""The variables of the operator in sections: each is declared once, with its default and its meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from environs import Env as Reader
from environs import ValidationError, validate

from pools.domain.values.scalars import is_decimal, whole_number

ValueT = TypeVar("ValueT")
WordT = TypeVar("WordT", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, its default as text (empty: none), and its meaning in Markdown."""

    name: str
    default: str
    meaning: str


class SettingsSection:
    """A section of the page of settings. Each method declares a variable: a field of a dataclass whose metadata have
    its reader. `elsewhere` has the meanings of variables that others read, and `defaults` their defaults."""

    def __init__(
        self,
        title: str,
        about: str = "",
        elsewhere: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self.title, self.about = title, about
        self._variables: list[Variable] = []
        usual = defaults or {}
        self._elsewhere = [Variable(name, usual.get(name, ""), about) for name, about in (elsewhere or {}).items()]

    @property
    def variables(self) -> list[Variable]:
        """In the order in which they are declared; those that others read are at the end."""
        return [*self._variables, *self._elsewhere]

    def text(self, name: str, default: str, meaning: str, validate: Any = None) -> str:
        return self._declare(name, default, meaning, lambda read: read.str(name, default, validate=validate))

    def word(self, name: str, default: WordT, meaning: str) -> WordT:
        """One member of the enumeration of the default."""
        known = validate.OneOf([*type(default)])
        return self._declare(
            name, default, meaning, lambda read: type(default)(read.str(name, str(default), validate=known))
        )

    def path(self, name: str, meaning: str) -> Path | None:
        return self._declare(name, "", meaning, lambda read: read_path(read, name))

    def texts(self, name: str, default: list[str], meaning: str, validate: Any = None) -> list[str]:
        usual = ",".join(default)
        return self._declare(name, usual, meaning, lambda read: read.list(name, default, validate=validate))

    def integer(self, name: str, default: int, meaning: str, validate: Any = None) -> int:
        def read_whole(read: Reader) -> int:
            read.str(name, None, validate=_is_whole)
            return read.int(name, default, validate=validate)

        return self._declare(name, str(default), meaning, read_whole)

    def number(self, name: str, default: float, meaning: str, validate: Any = None) -> float:
        def read_number(read: Reader) -> float:
            read.str(name, None, validate=_is_number)
            return read.float(name, default, validate=validate)

        return self._declare(name, f"{default:g}", meaning, read_number)

    def switch(self, name: str, default: bool, meaning: str) -> bool:
        return self._declare(name, str(default).lower(), meaning, lambda read: read.bool(name, default))

    def _declare(self, name: str, default: str, meaning: str, read: Callable[[Reader], ValueT]) -> ValueT:
        self._variables.append(Variable(name, default, meaning))
        return read_by(read)


def read_by(read: Callable[[Reader], ValueT]) -> ValueT:
    """A field whose value this function reads."""
    found: ValueT = field(metadata={"read": read})
    return found


class SettingsReader(Reader):
    """Reads the environment, and knows the names of what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def _get_key(self, key: str, *, omit_prefix: bool = False) -> str:
        name = str(super()._get_key(key, omit_prefix=omit_prefix))
        self.names.add(name)
        return name


def read_path(read: Reader, name: str) -> Path | None:
    """The path of a variable; None without a text."""
    text = read.str(name, "")
    return Path(text) if text else None


def _is_whole(text: str | None) -> None:
    """Whether the text is a whole number for every reader: Python alone reads `1_0` and `010` as 10."""
    if text is not None and whole_number(text.strip()) is None:
        raise ValidationError("A whole number is expected, as 10.")


def _is_number(text: str | None) -> None:
    if text is not None and not is_decimal(text.strip()):
        raise ValidationError("A number is expected, as 10 or 0.5.")
