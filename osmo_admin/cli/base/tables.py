"""Plain tables: columns as wide as their widest cell, two spaces between them; on a narrow terminal cells are cut, and
columns left out that matter less.

`-o csv` is written here alone: one row with the names of the columns, then plain values, each number in a column of its
own, times in UTC with their zone. Several names in one cell are separated by a semicolon; a row is never repeated for
them, so that sums of its numbers are right. A cell that people read in another way is a :class:`Shown`.
"""

from __future__ import annotations

import csv
import io
import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from osmo_admin.cli.base.times import format_local_time, utc_time
from pools.domain.columns import Column
from pools.domain.values.durations import span_text
from pools.domain.values.spreadsheet_cells import plain_cell

GUTTER = "  "
NOTHING = "-"
NOT_IN_THE_FILE = ""
LEAST_COLUMN_WIDTH = 8
LEAST_SENTENCE_WIDTH = 24
TREE_LINES = "│├└─ "
BETWEEN_NAMES = ";"
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def printable_text(text: str) -> str:
    """The text without control characters: names and descriptions come from other users."""
    return "".join(
        character if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs") else "�"
        for character in text
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell that people read as `text`; a file has `value`, which is a tuple for a column of several numbers."""

    text: Any
    value: Any


def local_time(timestamp: str | None) -> Shown:
    """A time of the server: local time for people, with its zone; UTC in a file."""
    return Shown(format_local_time(timestamp), utc_time(timestamp))


def duration_cell(seconds: float | None) -> Shown:
    """`1 h 2 min` for people, seconds in a file."""
    return Shown(None, None) if seconds is None else Shown(span_text(seconds), round(seconds))


def plain_number(amount: Any, unit: int = 1) -> float | int | None:
    """An amount as Kubernetes writes it, such as 16Gi, as a number of units; None for nothing."""
    from pools.domain.values.quantities import InvalidQuantity, parse_quantity

    try:
        found = None if amount is None else parse_quantity(amount).milli / (1000 * unit)
    except InvalidQuantity:
        return None
    return int(found) if found is not None and found.is_integer() else found


def first_of(values: Sequence[Any]) -> Shown:
    """The first values, and the number of the others; a file has them all."""
    most = 3
    if len(values) <= most:
        return Shown(values, values)
    return Shown(f"{format_cell(values[:most])} and {len(values) - most} more", values)


class PreformattedCell(str):
    """A cell that is drawn, such as the prefix of a tree or a bar: its spaces are kept, and a column of them whole."""

    __slots__ = ()


def format_cell(value: Any, between: str = ", ") -> str:
    """One value on one line; `-` for nothing. `between` separates several."""
    if isinstance(value, Shown):
        return format_cell(value.text, between)
    if isinstance(value, PreformattedCell):
        return printable_text(value).replace("\n", " ")
    if value is None or value in ("", []):
        return NOTHING
    if isinstance(value, list | tuple):
        return between.join(format_cell(each) for each in value)
    if isinstance(value, Mapping):
        return between.join(f"{key}={format_cell(each)}" for key, each in sorted(value.items())) or NOTHING
    return " ".join(printable_text(str(value)).split())


def display_width(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header, with an optional row of sums. Every cell is a formatted line of text.

    `minimum` holds the minimum widths of the first columns. Cells are left-aligned; lines have no trailing spaces.
    `names` and `values` are the file, and `nothing` is what people read in place of no rows. `spare` are the headings
    of columns that a narrow terminal does without, the first to go in front; cells under the headings `sentences` are
    wrapped and not cut; those of `uncut` are neither.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    sums: Sequence[str] = ()
    minimum: Sequence[int] = ()
    names: Sequence[str] = ()
    values: Sequence[Sequence[Any]] = ()
    nothing: str = ""
    spare: Sequence[str] = ()
    sentences: Collection[str] = ()
    uncut: Collection[str] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The table, at most `width` columns wide; as wide as its cells without `width`.

        The widest cells are cut, never those of the first column, which names the object. Where even this is too wide,
        spare columns are left out, which the last line says, and without enough of them each row becomes a block of
        `Name : value` lines.
        """
        if self.nothing and not self.rows:
            return self.nothing
        for count in range(len(self.spare) + 1):
            left_out = self.spare[:count]
            if lines := self._without(left_out)._lines(width):
                more = [f"Left out: {', '.join(reversed(left_out))}. -o wide has all."] if left_out else []
                return "\n".join([*lines, *(["", *textwrap.wrap(more[0], width or 80)] if more else [])])
        return self._blocks()

    def _lines(self, width: int | None) -> list[str]:
        """The lines; none if they do not fit."""
        widths = self._widths()
        if width is not None and _total_width(widths) > width:
            shortest = [
                widths[0],
                *(
                    size if name in self.uncut else min(size, max(display_width(name), self._least_width(name)))
                    for size, name in zip(widths[1:], self.header[1:], strict=True)
                ),
            ]
            if _total_width(shortest) > width:
                return []
            widths = _shrink(widths, shortest, width)
        dashes = ["-" * size for size in widths]
        lines = [self.header, dashes, *self.rows, *([dashes, self.sums] if self.sums else [])]
        wraps = [name in self.sentences for name in self.header]
        return [text for line in lines for text in _format_row(line, widths, wraps)]

    def _least_width(self, name: str) -> int:
        return LEAST_SENTENCE_WIDTH if name in self.sentences else LEAST_COLUMN_WIDTH

    def _without(self, names: Collection[str]) -> Table:
        """The table without these columns, for people."""
        if not names:
            return self
        kept = [at for at, name in enumerate(self.header) if name not in names]
        rows = [[row[at] for at in kept] for row in self.rows]
        sums = [self.sums[at] for at in kept] if self.sums else []
        floor = [*self.minimum, *[0] * (len(self.header) - len(self.minimum))]
        header, minimum = [self.header[at] for at in kept], [floor[at] for at in kept]
        return replace(self, header=header, rows=rows, sums=sums, minimum=minimum)

    def csv(self) -> str:
        """Names and values as CSV (RFC 4180 with line feeds); nothing is an empty field. Sums are left out."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows([_csv_field(value) for value in row] for row in self.values)
        return text.getvalue().removesuffix("\n")

    def _widths(self) -> list[int]:
        floor = [*self.minimum, *[0] * (len(self.header) - len(self.minimum))]
        lines = [self.header, *self.rows, *([self.sums] if self.sums else [])]
        return [max(least, *(display_width(line[at]) for line in lines)) for at, least in enumerate(floor)]

    def _blocks(self) -> str:
        blocks = [str(Facts(list(zip(self.header, row, strict=True)))) for row in self.rows]
        sums = [pair for pair in zip(self.header, self.sums, strict=True) if pair[1]] if self.sums else []
        return "\n\n".join([*blocks, *([f"Sums\n{Facts(sums)}"] if sums else [])])


@dataclass(frozen=True, slots=True)
class Facts:
    """`Name : value` lines with aligned colons."""

    pairs: Sequence[tuple[str, Any]]

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The lines. They are never cut: the terminal wraps a long value."""
        listed = [(name, format_cell(value)) for name, value in self.pairs]
        longest = max((len(name) for name, _ in listed), default=0)
        return "\n".join(f"{name:<{longest}} : {value}" for name, value in listed)

    def csv(self) -> str:
        """Two columns."""
        return build_table(("Field", "Value"), self.pairs).csv()


AnswerPart = str | Table | Facts
AnswerText = AnswerPart | Sequence[AnswerPart]


def build_table(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    minimum: Sequence[int] = (),
    total: Sequence[Any] | None = None,
    parts: Sequence[str] = (),
    names: Sequence[str] = (),
    nothing: str = "",
    spare: Sequence[str] = (),
    sentences: Collection[str] = (),
) -> Table:
    """A table of any values; `total` is its row of sums. `names` are the columns of the file, by default the header;
    `parts` has, for a column of several numbers, their names, of which `-` is the name of the column alone; a column
    named NOT_IN_THE_FILE is for people only. The others are those of :class:`Table`."""
    cells, named = [list(row) for row in rows], names or header
    divided = [each.split() for each in parts or [""] * len(header)]
    file_names = [
        _column_name(name) if part in ("", "-") else f"{_column_name(name)}_{part}"
        for name, each in zip(named, divided, strict=True)
        for part in each or [""]
        if name != NOT_IN_THE_FILE
    ]
    values = [
        [
            value
            for name, cell, each in zip(named, row, divided, strict=True)
            if name != NOT_IN_THE_FILE
            for value in _values(cell, len(each))
        ]
        for row in cells
    ]
    body = [[format_cell(value) for value in row] for row in cells]
    sums = [] if total is None else [("" if value == "" else format_cell(value)) for value in total]
    uncut = {name for at, name in enumerate(header) if any(isinstance(row[at], PreformattedCell) for row in cells)}
    return Table(header, body, sums, minimum, file_names, values, nothing, spare, sentences, uncut)


def list_table(
    columns: Collection[Column],
    rows: Iterable[Mapping[str, Any]],
    total: Sequence[Any] | None = None,
    *,
    nothing: str = "",
) -> Table:
    """These columns of the rows of an answer."""
    named = dict(zip(headings(columns), columns, strict=True))
    return build_table(
        headings(columns),
        ([_cell(column, row) for column in columns] for row in rows),
        total=total,
        parts=[column.parts for column in columns],
        names=[column.key for column in columns],
        nothing=nothing,
        spare=[name for name, column in reversed(named.items()) if column.is_extra],
        sentences={name for name, column in named.items() if column.is_sentence},
    )


def _column_name(heading: str) -> str:
    return re.sub(r"\W+", "_", heading.lower()).strip("_")


def _values(cell: Any, parts: int) -> Sequence[Any]:
    """The values of one cell in the file."""
    value = cell.value if isinstance(cell, Shown) else cell
    if parts:
        return value if isinstance(value, tuple) else [None] * parts
    return [value]


def headings(columns: Iterable[Column]) -> list[str]:
    """The headings of columns, for a table whose cells are not a list of keys."""
    return [column.published or column.heading for column in columns]


def _cell(column: Column, row: Mapping[str, Any]) -> Any:
    value = column.cell(row) if callable(column.cell) else row.get(column.cell or column.key)
    return local_time(value) if column.is_time and not isinstance(value, Shown) else value


def with_more_entries(table: Table, answer: Any) -> AnswerText:
    """The table of one page of a list, with a remark if the list goes on."""
    has_more = isinstance(answer, dict) and answer.get("more_entries")
    return [table, "More entries: use --offset or --limit."] if has_more else table


def answer_parts(text: AnswerText) -> list[AnswerPart]:
    """The parts of an answer, without empty ones."""
    parts = [text] if isinstance(text, str | Table | Facts) else text
    return [part for part in parts if part != ""]


def answer_as_csv(text: AnswerText) -> str | None:
    """The answer's last table as CSV; else its facts; None if it has neither."""
    parts = answer_parts(text)
    tables = [part for part in parts if isinstance(part, Table)]
    facts = [part for part in parts if isinstance(part, Facts)]
    chosen = (tables or facts)[-1:]
    return chosen[0].csv() if chosen else None


def _csv_field(value: Any) -> str:
    """The value without the lines of a tree; empty for nothing.

    An apostrophe goes in front of a text that a spreadsheet would run as a formula: other users choose names.
    """
    cell = format_cell(value, BETWEEN_NAMES)
    text = "" if cell == NOTHING else cell.lstrip(TREE_LINES)
    return text if NUMBER.fullmatch(text) else plain_cell(text)


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(GUTTER) * (len(widths) - 1)


def _shrink(widths: Sequence[int], shortest: Sequence[int], width: int) -> list[int]:
    """Column widths that fit into `width`: the widest column gives first, none below its shortest."""
    sizes = list(widths)
    while (surplus := _total_width(sizes) - width) > 0:
        give = [at for at, size in enumerate(sizes) if size > shortest[at]]
        widest = max(sizes[at] for at in give)
        group = [at for at in give if sizes[at] == widest]
        below = max([sizes[at] for at in give if sizes[at] < widest] + [shortest[at] for at in group])
        step = max(1, min(widest - below, surplus // len(group)))
        for at in group[: max(1, min(len(group), surplus // step))]:
            sizes[at] -= step
    return sizes


def _format_row(cells: Sequence[str], widths: Sequence[int], wraps: Sequence[bool]) -> Iterator[str]:
    columns = [
        list(_wrapped(text, size)) if is_wrapped else [_cut(text, size)]
        for text, size, is_wrapped in zip(cells, widths, wraps, strict=True)
    ]
    for line in zip_longest(*columns, fillvalue=""):
        padded = (text + " " * (size - display_width(text)) for text, size in zip(line, widths, strict=True))
        yield GUTTER.join(padded).rstrip()


def _cut(text: str, width: int) -> str:
    """The text in at most `width` terminal columns, with an ellipsis where it was cut."""
    if display_width(text) <= width:
        return text
    while display_width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The text in lines of this width; a word is divided only where a line is too short for it. `textwrap` counts
    characters, and not the columns of a terminal."""
    line = ""
    for word in text.split():
        if line and display_width(f"{line} {word}") > width:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while display_width(line) > width:
            fits = next(at for at in range(len(line) - 1, 0, -1) if at == 1 or display_width(line[:at]) <= width)
            yield line[:fits]
            line = line[fits:]
    yield line
