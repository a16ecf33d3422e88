"""Lists as CSV files for spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from django.http import HttpRequest, HttpResponse

from pools.domain.columns import Column
from pools.domain.values.spreadsheet_cells import plain_cell
from pools.representations.page_parameters import read_choice

FORMAT_PARAMETER = "format"
MAX_CSV_ROWS = 100_000


def is_csv_request(request: HttpRequest) -> bool:
    """Whether the address of a list asks for the list as CSV (`?format=csv`)."""
    return read_choice(request.GET, FORMAT_PARAMETER, ["csv"]) == "csv"


def csv_response(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """The file `name`.csv: a line of column names, then one line a row. Times are in UTC, missing values are empty, and
    a text that a spreadsheet would run as a formula begins with an apostrophe."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)


def list_csv(name: str, columns: Mapping[str, Column], rows: Iterable[Any]) -> HttpResponse:
    """The file of a list, with its columns that have values."""
    cells = [(column.key, column.value) for column in columns.values() if column.value]
    return csv_response(name, [key for key, _ in cells], ([value(row) for _, value in cells] for row in rows))


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return plain_cell(value) if isinstance(value, str) else value
