"""`osmo usage`: what was used, lent, idle and waited for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.help_text import HelpedCommand
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, OutputFormat
from osmo_admin.cli.base.tables import AnswerPart, Shown, build_table, list_table
from osmo_admin.cli.base.times import parse_time, utc_time
from osmo_admin.cli.lists import list_command
from pools.domain.names import readable_name
from pools.domain.numbers import GPU_HOURS, USAGE_NUMBERS
from pools.domain.values.amounts import LITTLE, is_little
from pools.domain.values.durations import span_text
from scheduling.domain.list_columns import POOL_LOSS_COLUMNS
from scheduling.domain.lists import NO_KEY, USUAL_BUCKET, Bucket, UsageKey, UsageQuery

SECONDS_PER_HOUR = 3600
HEADER = [number.label for number in USAGE_NUMBERS.values()]
SPARE = [
    USAGE_NUMBERS[key].label
    for key in (
        "low_inside_gpu_s", "guaranteed_gpu_s", "over_quota_gpu_s", "lent_gpu_s", "borrowed_gpu_s", "lost_gpu_s",
        "preemptions", "wait_p50_s", "workflows",
    )
]  # fmt: skip
"""What a narrow terminal does without, the first to go in front."""
FILE_NAMES = [key.replace("_gpu_s", "_gpu_hours") for key in USAGE_NUMBERS]


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level, with `export` below it."""
    family = typer.Typer(rich_markup_mode=None, add_completion=False)
    list_command(family, "usage", UsageQuery, usual={"bucket": USUAL_BUCKET}, in_utc=True, is_group=True)(usage)
    family.command("export", cls=HelpedCommand)(export)
    app.add_typer(family, name="usage")


class TraceFormat(StrEnum):
    """The form of an exported trace."""

    CSV = "csv"
    SWF = "swf"


def export(
    ctx: typer.Context,
    *,
    trace: Annotated[
        bool, typer.Option("--trace", help="A trace in CSV, as osmo replay reads it (the default).")
    ] = False,
    output: Annotated[
        TraceFormat, typer.Option("--output", "-o", help="csv, or swf for the Standard Workload Format.")
    ] = TraceFormat.CSV,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Submitted from this time on: a date or a time in UTC, or 12h, 30d before now."
        ),
    ] = "30d",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Submitted before this time, in UTC.")] = None,
) -> None:
    """Export the work that has ended as a trace for osmo replay, on standard output.

    Example: osmo usage export --since 30d > trace.csv
    """
    session: ClientSession = ctx.obj
    if trace and output is not TraceFormat.CSV:
        raise ClientError("--trace writes CSV: leave it out with -o swf.")
    query = {
        "format": output.value,
        "since": parse_time(since, in_utc=True),
        "until": parse_time(until, in_utc=True) if until else None,
    }
    typer.echo(session.http().get_text("api/usage/trace", query), nl=False)


def usage(
    session: ClientSession,
    query: dict[str, Any],
    *,
    month: Annotated[
        str, typer.Option(metavar="YYYY-MM", help="This month, in UTC, in place of --since and --until.")
    ] = "",
) -> None:
    """Show GPU-hours that were used, lent, idle and waited for.

    Example: osmo usage --month 2026-10 --by user --pool vision
    """
    if month:
        if "since" in query or "until" in query:
            raise ClientError("Give either --month or --since and --until.")
        query |= _times_of_month(month)
    answer = session.http().get("api/usage", query)
    as_table = session.output is OutputFormat.CSV
    make = _usage_table if as_table else _usage_text
    print_answer(session, answer, lambda: make(answer, query["by"], query["bucket"]))


def _times_of_month(text: str) -> dict[str, str]:
    """The beginning of the month, and its end unless that is in the future. Raises ClientError."""
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", text):
        raise ClientError("This is not a month. Write 2026-10 for October 2026.")
    year, number = int(text[:4]), int(text[5:])
    first, end = datetime(year, number, 1), datetime(year + number // 12, number % 12 + 1, 1)
    now = datetime.now(UTC).replace(tzinfo=None)
    if first > now:
        raise ClientError("This month has not begun, so nothing is on record.")
    return {"since": first.isoformat(), **({"until": end.isoformat()} if end <= now else {})}


def _usage_table(answer: dict[str, Any], by: str, bucket: str) -> list[AnswerPart]:
    rows = [
        [Shown(_start_text(row["start"], bucket), utc_time(row["start"])), _key(row, by), *_cells(row)]
        for row in answer["rows"]
    ]
    total = ["Total", "", *_cells(answer["totals"])]
    table = build_table(
        ("From (UTC)", by.capitalize(), *HEADER), rows, total=total if rows else None, names=("from", by, *FILE_NAMES),
        nothing="Nothing is on record for this time.", spare=SPARE,
    )  # fmt: skip
    more = ["More entries: choose a longer bucket or a shorter time."] if answer["more_entries"] else []
    if any("parts" in row for row in answer["rows"]):
        more.insert(0, "Rows of parts of shared GPUs count parts. The total is that of whole GPUs.")
    return [table, *more]


def _key(row: dict[str, Any], by: str) -> Any:
    """What a row is about. A file has no words where there is nothing."""
    words = NO_KEY.get(UsageKey(by))
    if row[by] is None:
        return None if words is None else Shown(words, None)
    return Shown(readable_name(row[by]), row[by])


def _usage_text(answer: dict[str, Any], by: str, bucket: str) -> list[AnswerPart]:
    table = _usage_table(answer, by, bucket)
    return ["GPU-hours:", *table, *_losses_text(answer.get("lost") or [])] if answer["rows"] else table


def _losses_text(losses: list[dict[str, Any]]) -> list[AnswerPart]:
    """What was lost by pool, cause and taker; nothing where nothing was, and of an older server."""
    rows = [
        {
            **each,
            "pool": f"{each['pool']}/{each['parts']}" if "parts" in each else each["pool"],
            "lost": _hours(each["lost_gpu_s"] / SECONDS_PER_HOUR),
        }
        for each in losses
    ]
    return ["Lost, most first:", list_table(POOL_LOSS_COLUMNS.values(), rows)] if rows else []


def _start_text(start: str, bucket: str) -> str:
    """The beginning of a bucket, in UTC like the buckets themselves: `2026-11`, `2026-11-20` or `2026-11-20 15:00`."""
    lengths: dict[str, int] = {Bucket.MONTH: 7, Bucket.DAY: 10}
    return start.replace("T", " ")[: lengths.get(bucket, 16)]


def _cells(row: dict[str, Any]) -> list[Any]:
    return [_cell(row.get(key), number.unit) for key, number in USAGE_NUMBERS.items()]


def _cell(amount: float | None, unit: str) -> Any:
    if amount is None or not unit:  # an older server lacks the newest
        return amount
    if unit != GPU_HOURS:
        return Shown(span_text(amount), amount)
    hours = amount / SECONDS_PER_HOUR
    return Shown(_hours(hours), round(hours, 4))


def _hours(amount: float) -> str:
    """As the pages write them: from 100 on without decimals."""
    if is_little(amount):
        return LITTLE
    return f"{amount:.{0 if abs(amount) >= 100 else 1}f}" if amount else "0"
