"""Quotas of subpools as CSV: columns `pool`, `subpool` and `quota`. The list of pools as CSV has this form: an edited
export can be given back, and of its further columns only the state counts. With a column `flavor`, a subpool has a line
for each flavor. Other columns are refused: what is written there would have no effect."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.list_columns import POOL_COLUMNS
from pools.domain.names import canonical_name
from pools.domain.numbers import POOL_NUMBERS
from pools.domain.structured_input.faults import Faults, join_words
from pools.domain.subpool_lifecycle import SubpoolState

COLUMNS = ("pool", "subpool", "quota")
FLAVOR = "flavor"
_STATE = "state"
MAX_FILE_LENGTH = 200_000
"""Characters; a line is about 30."""
MAX_FAULTS = 100


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """The quotas of a file by canonical name, as typed (by flavor where the file names flavors), each with its first
    line (from 1, the header is 1). `left_out` counts the lines of pools, of remainders, and of subpools that are not
    ACTIVE: other commands change those."""

    quotas: Mapping[str, str | Mapping[str, str]]
    lines: Mapping[str, int]
    left_out: int = 0


def parse_quota_file(text: str) -> QuotaFile:
    """Raises BadInput with every fault, each with its line."""
    if len(text) > MAX_FILE_LENGTH:
        raise _refusal(f"The file has {len(text):,} characters; the most is {MAX_FILE_LENGTH:,}. Give it in parts.", 1)
    reader = csv.reader(StringIO(text.removeprefix("\ufeff")))
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        missing = [column for column in COLUMNS if column not in header]
        if missing:
            raise _refusal(
                f"The first line has no column {' and no column '.join(missing)}; it names the columns: "
                f"{','.join(COLUMNS)}.",
                1,
            )
        known = [name for name in (*COLUMNS, FLAVOR, _STATE) if name in header]
        if again := [name for name in known if header.count(name) > 1]:
            raise _refusal(f"The first line has the column {again[0]} twice. Keep one.", 1)
        _refuse_unknown(header)
        return _read_lines(reader, {name: header.index(name) for name in known}, header)
    except csv.Error as error:
        raise _refusal(f"Line {reader.line_num} is not CSV: {error}.", reader.line_num) from None


def format_quota_file(quotas: Mapping[tuple[str, str | None], object]) -> str:
    """The same as a file: (pool, subpool) → quota, or quotas by flavor."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns, rows = quota_rows(quotas)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def quota_rows(quotas: Mapping[tuple[str, str | None], object]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """The columns and rows of such a file; the column of the flavors only where a quota is by flavor."""
    if not any(isinstance(quota, Mapping) for quota in quotas.values()):
        return COLUMNS, [(pool, subpool, quota) for (pool, subpool), quota in quotas.items()]
    rows: list[tuple[object, ...]] = []
    for (pool, subpool), quota in quotas.items():
        by_flavor = quota if isinstance(quota, Mapping) else {"": quota}
        rows += [(pool, subpool, gpus, flavor) for flavor, gpus in by_flavor.items()]
    return (*COLUMNS, FLAVOR), rows


def message_of_file(path: str, code: str, message: str, names: Iterable[str]) -> str:
    """What is said of a fault of the change, whose quotas are those of these subpools, in the words of a file: no path,
    and no form of JSON."""
    name = next((each for each in names if f"{path}.".startswith(f"quotas.{each}.")), None)
    if name is None:
        return message
    flavor = path.removeprefix(f"quotas.{name}").removeprefix(".")
    if code == Fault.FLAVOR_NEEDED:
        needed = f"Give the file the column {FLAVOR}, and {name} a line for each flavor whose quota changes."
        return f"{name}: {message.partition(':')[0]}. {needed}"
    if code == Fault.UNKNOWN_FLAVOR and not flavor:
        return f"{name}: {message.partition(':')[0]}. Leave the column {FLAVOR} empty."
    if message.startswith(f"{path} "):
        return f"{name}: {flavor or 'the quota'}{message.removeprefix(path)}"
    return message if name in message else f"{name}{f', {flavor}' if flavor else ''}: {message}"


def _refuse_unknown(header: list[str]) -> None:
    """Names are not repeated: without a header, the first line is data."""
    allowed = (*COLUMNS, FLAVOR)
    earlier = POOL_NUMBERS  # the file of the list had their keys before it had their labels
    listed = {column.key for column in POOL_COLUMNS.values() if column.value} | earlier.keys()
    faults = Faults(maximum=MAX_FAULTS)
    for number, name in enumerate(header, 1):
        if name and name not in allowed and name not in listed:
            near = faults.suggestion(name, allowed)
            message = (
                f"Column {number} is not known.{near} Columns are {join_words(allowed)}, and those of the list of "
            )
            faults.add("quotas", Fault.BAD_FILE, f"{message}pools as CSV.", line=1)
    if faults.violations:
        raise BadInput.of(faults.violations)


def _read_lines(reader: Any, columns: Mapping[str, int], header: list[str]) -> QuotaFile:
    quotas: dict[str, str | dict[str, str]] = {}
    lines: dict[str, int] = {}
    faults: list[Violation] = []
    left_out = 0
    for cells in reader:
        number = reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) <= max(columns[name] for name in COLUMNS):
            faults.append(_fault(f"Line {number} has {len(cells)} columns, fewer than the first line.", number))
            continue
        if any(cell.strip() for cell in cells[len(header) :]):  # such as 1,000 without quotes, which is not 1
            faults.append(_fault(f"Line {number} has {len(cells)} columns, more than the first line.", number))
            continue
        if unnamed := [at for at, (name, cell) in enumerate(zip(header, cells, strict=False), 1) if cell and not name]:
            text = f"Line {number} has a value in column {unnamed[0]}, which has no name in the first line."
            faults.append(_fault(text, number))
            continue
        pool, subpool, quota = (cells[columns[name]].strip() for name in COLUMNS)
        state, flavor = (
            cells[columns[name]].strip() if len(cells) > columns.get(name, len(cells)) else ""
            for name in (_STATE, FLAVOR)
        )
        if not subpool or state in {SubpoolState.DELETING, SubpoolState.ARCHIVED}:
            left_out += 1
            continue
        name = canonical_name(pool, subpool)
        by_flavor = quotas.setdefault(name, {}) if flavor else quotas.get(name)
        if isinstance(by_flavor, dict) and flavor and flavor not in by_flavor:
            by_flavor[flavor] = quota
        elif name not in lines:
            quotas[name] = quota
        else:
            again = f"{name} with the flavor {flavor}" if flavor else name
            faults.append(_fault(f"Line {number} names {again} again, after line {lines[name]}.", number))
        lines.setdefault(name, number)
    if not quotas and not faults:
        faults.append(_fault("The file has no line of an ACTIVE subpool.", 1))
    if faults:
        raise BadInput.of(faults)
    return QuotaFile(quotas, lines, left_out)


def _fault(message: str, line: int) -> Violation:
    return Violation("quotas", Fault.BAD_FILE, message, line=line)


def _refusal(message: str, line: int) -> BadInput:
    return BadInput(message, [_fault(message, line)])
