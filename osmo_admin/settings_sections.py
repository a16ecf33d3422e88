"""The variables of the operator in sections: each is read together with its default and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from environs import Env as Reader
from environs import ValidationError

from pools.domain.values.scalars import is_decimal, whole_number


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, its default as text (empty: none), and its meaning in Markdown."""

    name: str
    default: str
    meaning: str


class SettingsSection:
    """A section of the page of settings. Each method reads a variable and keeps it for the page."""

    def __init__(self, read: Reader, title: str, about: str, elsewhere: Mapping[str, str]) -> None:
        self.title, self.about = title, about
        self._read = read
        self._variables: list[Variable] = []
        self._elsewhere = [Variable(name, "", meaning) for name, meaning in elsewhere.items()]

    @property
    def variables(self) -> list[Variable]:
        """In the order in which they were read; those that others read are at the end."""
        return [*self._variables, *self._elsewhere]

    def text(self, name: str, default: str, meaning: str, validate: Any = None) -> str:
        self._keep(name, default, meaning)
        return self._read.str(name, default, validate=validate)

    def texts(self, name: str, default: list[str], meaning: str, validate: Any = None) -> list[str]:
        self._keep(name, ",".join(default), meaning)
        found: list[str] = self._read.list(name, default, validate=validate)
        return found

    def integer(self, name: str, default: int, meaning: str, validate: Any = None) -> int:
        self._keep(name, str(default), meaning)
        self._read.str(name, None, validate=_is_whole)
        return self._read.int(name, default, validate=validate)

    def number(self, name: str, default: float, meaning: str, validate: Any = None) -> float:
        self._keep(name, f"{default:g}", meaning)
        self._read.str(name, None, validate=_is_number)
        return self._read.float(name, default, validate=validate)

    def switch(self, name: str, default: bool, meaning: str) -> bool:
        self._keep(name, str(default).lower(), meaning)
        return self._read.bool(name, default)

    def _keep(self, name: str, default: str, meaning: str) -> None:
        self._variables.append(Variable(name, default, meaning))


class SettingsReader(Reader):
    """Reads the environment, and knows the names and sections of what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.sections: list[SettingsSection] = []

    def section(self, title: str, about: str = "", elsewhere: Mapping[str, str] | None = None) -> SettingsSection:
        """A new section. `elsewhere` has the meanings of variables that single commands and processes read."""
        self.sections.append(SettingsSection(self, title, about, elsewhere or {}))
        self.names.update(elsewhere or {})
        return self.sections[-1]

    def _get_key(self, key: str, *, omit_prefix: bool = False) -> str:
        name = str(super()._get_key(key, omit_prefix=omit_prefix))
        self.names.add(name)
        return name


def _is_whole(text: str | None) -> None:
    """Whether the text is a whole number for every reader: Python alone reads `1_0` and `010` as 10."""
    if text is not None and whole_number(text.strip()) is None:
        raise ValidationError("A whole number is expected, as 10.")


def _is_number(text: str | None) -> None:
    if text is not None and not is_decimal(text.strip()):
        raise ValidationError("A number is expected, as 10 or 0.5.")
