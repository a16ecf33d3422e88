"""The parameters of a page's address, and what of them the page does not know: names, values of a choice, repetitions.

A page asks the query for the names that it knows, so a name that no code has read had no effect, and of a name that
was never read as a list only the last text had. No page lists its parameters a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from django.http import QueryDict

from pools.domain.structured_input import Faults, join_words


class RememberingQuery(QueryDict):
    """A query that remembers the names that were read, the known values of choices, and the `readers` of more faults.
    Copies share this memory; the methods that read a query as a whole (`items`, `lists`, `urlencode`) ask for no
    name."""

    names_read: set[str]
    lists_read: set[str]
    choices: dict[str, list[str]]
    readers: list[Callable[[], Iterable[str]]]

    def __init__(self, *args: Any, **options: Any) -> None:
        self.names_read, self.lists_read, self.choices, self.readers = set(), set(), {}, []
        super().__init__(*args, **options)
        self.names_read.clear()  # filling a query asks for each name
        self.lists_read.clear()

    def __getitem__(self, key: Any) -> Any:
        self.names_read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self.names_read.add(key)
        return super().__contains__(key)

    def getlist(self, key: str, default: Any = None) -> Any:
        self.names_read.add(key)
        self.lists_read.add(key)
        return super().getlist(key, default)

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # an iterator in Django, too
        return ((key, values[-1] if values else []) for key, values in self.lists())

    def __copy__(self) -> RememberingQuery:
        return self._sharing(super().__copy__())

    def __deepcopy__(self, memo: MutableMapping[int, Any]) -> RememberingQuery:
        return self._sharing(super().__deepcopy__(memo))

    def _sharing(self, copy: Any) -> RememberingQuery:
        copy.names_read, copy.lists_read = self.names_read, self.lists_read
        copy.choices, copy.readers = self.choices, self.readers
        return copy  # type: ignore[no-any-return]

    def unknown_names(self) -> list[str]:
        """The names in the address that nothing has read."""
        return [name for name, _ in self.lists() if name not in self.names_read]

    def repeated_names(self) -> list[str]:
        """The names that are in the address more than once and were read only once."""
        once = self.names_read - self.lists_read
        return [name for name, texts in self.lists() if name in once and len(texts) > 1]

    def fault(self, subject: str) -> str:
        """Sentences for people about unknown names, unknown values and repetitions, empty without any. `subject` does
        not know them, as `This page`; values are not shown."""
        values = [unread_filter(name, unknown_value(self.choices[name])) for name in self._unknown_choices()]
        more = [sentence for read in self.readers for sentence in read()]
        return " ".join(filter(None, (self._unknown_fault(subject), self._repeated_fault(subject), *values, *more)))

    def _unknown_choices(self) -> list[str]:
        return [name for name, known in self.choices.items() if self.get(name) and self.get(name) not in known]

    def _repeated_fault(self, subject: str) -> str:
        names = self.repeated_names()
        if not names:
            return ""
        noun = "filter" if len(names) == 1 else "filters"
        return f"{subject} reads the {noun} {join_words(names)} only once: of those in the address the last one counts."

    def _unknown_fault(self, subject: str) -> str:
        unknown = self.unknown_names()
        if not unknown:
            return ""
        known = sorted(name for name in self.names_read if not name.startswith("_"))
        faults = Faults()
        near = "".join(dict.fromkeys(faults.suggestion(name, known) for name in unknown))
        noun = "filter" if len(unknown) == 1 else "filters"
        has = f"it has: {join_words(known)}." if known else "it has none."
        return f"{subject} does not know the {noun} {join_words(unknown)}; {has}{near}"


def read_choice(parameters: Mapping[str, str], name: str, known: Iterable[str], default: str = "") -> str:
    """The value of a parameter that has only these values; `default` where it is missing, or has another value, which
    the page then says."""
    found, texts = parameters.get(name, ""), [str(each) for each in known]
    if isinstance(parameters, RememberingQuery):
        parameters.choices[name] = texts
    return found if found in texts else default


def also_say(parameters: Mapping[str, str], reader: Callable[[], Iterable[str]]) -> None:
    """What is wrong with the address in the eyes of `reader`, asked when the page is ready, is said with the rest."""
    if isinstance(parameters, RememberingQuery):
        parameters.readers.append(reader)


def unread_filter(label: str, reason: str) -> str:
    """The message about a parameter whose value cannot be read."""
    return f"The filter was not applied: {label}: {reason}"


def unknown_value(known: Iterable[str]) -> str:
    """The reason where a parameter has only the `known` values."""
    names = join_words(known)
    return f"this is not a known value. Known are: {names}." if names else "there is no value to choose."
