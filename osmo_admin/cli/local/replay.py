"""`osmo replay`: a trace of jobs on a cluster from a file, without a server; with `--own` the server's own history."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import SERVER_FAILED, ClientError
from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.output import print_answer
from osmo_admin.cli.base.session import ClientSession, print_warning
from osmo_admin.cli.base.tables import AnswerText, Facts
from osmo_admin.cli.local.replay_advice import DEFAULT_REPLAYS, advice_text
from osmo_admin.cli.local.replay_own import replay_own_history
from osmo_admin.cli.local.replay_tables import format_decimal, format_number, format_seconds, team_table
from osmo_admin.cli.local.terminal_report import TerminalReport
from osmo_admin.cli.local.trace_options import TeamFrom, trace_options
from pools.domain.numbers import REPLAY_NUMBERS
from pools.domain.values.durations import span_text
from scheduling.domain.priorities import Priority

COLUMNS = (
    "jobs", "never", "quota_gpu_h", "used_gpu_h", "lost_gpu_h", "lent_gpu_h", "borrowed_gpu_h", "idle_quota_gpu_h",
    "waiting_gpu_h", "wait_mean_s", "wait_p50_s", "wait_p90_s", "wait_p99_s", "slowdown_p50", "preemptions",
)  # fmt: skip
_TRIES_WITHOUT_ADVICE = "--tries is the number of replays of the advice: add --advise."


def add_to(app: typer.Typer) -> None:
    """Register the command at the top level."""
    client_command(app, "replay")(replay)


def replay(
    session: ClientSession,
    *,
    trace: Annotated[
        str | None,
        typer.Argument(
            metavar="TRACE",
            help="CSV, .swf, the output of sacct -P, or a log of workloads. With --own: a file with changes.",
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="CLUSTER.yaml", help="A scenario file with nodes and queues, without work."),
    ] = None,
    own: Annotated[
        bool,
        typer.Option("--own", help="Let the server replay its own history, with the `changes` of the file."),
    ] = False,
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --own: the simulated cluster, where there are several.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="OTHER.yaml", help="Run the trace on this cluster too, and compare.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted from this time of the trace on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only jobs submitted before this time of the trace.")
    ] = None,
    priority: Annotated[
        Priority, typer.Option(help="The priority of jobs for which the trace has none.")
    ] = Priority.LOW,
    team: Annotated[
        str | None, typer.Option(metavar="NAME", help="The team of jobs for which the trace has none.")
    ] = None,
    team_from: Annotated[
        TeamFrom | None,
        typer.Option(
            "--team-from", "--team-field", help="What is the team: for .swf queue or another field, for sacct account."
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="TEAM=QUEUE", help="The queue of a team that has another name. May be repeated."),
    ] = None,
    priority_of: Annotated[
        list[str] | None,
        typer.Option("--priority-of", metavar="QOS=PRIORITY", help="The priority of a QOS or class. May be repeated."),
    ] = None,
    skip_unusable: Annotated[
        bool,
        typer.Option("--skip-unusable", help="Leave out and count jobs without run time, GPUs or team (not for CSV)."),
    ] = False,
    skip_unknown_teams: Annotated[
        bool, typer.Option("--skip-unknown-teams", help="Leave out and name teams without a queue (not for CSV).")
    ] = False,
    gpus_per_task: Annotated[
        int, typer.Option("--gpus-per-task", min=1, help="A larger job is a gang of tasks of this size.")
    ] = 8,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="A preempted job goes on from its last multiple of these seconds."),
    ] = None,
    runs: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="Write one line for each attempt, in the order of starts.")
    ] = None,
    advise: Annotated[
        bool,
        typer.Option("--advise", help="Propose quotas and lending limits that would have cost the least waiting."),
    ] = False,
    tries: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="REPLAYS",
            help=f"With --advise: the largest number of replays besides today's (default: {DEFAULT_REPLAYS}).",
        ),
    ] = None,
    forecast: Annotated[
        bool,
        typer.Option("--forecast", help="Forecast the start of each job that has to wait, and score the forecasts."),
    ] = False,
    score_since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --forecast: score only jobs from this time on."),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(metavar="FILE.svg", help="With --forecast: draw how often the forecast shares came true."),
    ] = None,
) -> None:
    """Run a trace of jobs through the scheduler and measure waits, use and preemptions, without a server.

    With --own the server replays what it has recorded from --since (7d: seven days ago) to --until (by default now), as
    it was and with the changes of a file, `[{set: {name: team--b, quota: 24}}]`. Nothing is written.

    With --advise the trace, or with --own the history of the server, is replayed many times: which quotas and lending
    limits would have cost the least waiting and lost work, without HIGH or NORMAL work waiting longer? Each proposal
    comes with commands that try it; none is applied.

    Exit code 0: done; 2: a file or an option cannot be read; 10: the scheduler has a defect. Every fault of a file is
    named with its line.

    Example: osmo replay trace.csv --on cluster.yaml
    """
    from scheduling.domain.priorities import Priority
    from scheduling.history.replay.clock import ReplayRules, StuckReplay
    from scheduling.history.traces import values
    from scheduling.history.traces.advice import advise_from_files
    from scheduling.history.traces.faults import ReplayFault
    from scheduling.history.traces.run import ReplayRequest
    from scheduling.history.traces.run import replay as run_replay

    if own:
        given = {
            "--on": on, "--against": against, "--checkpoint": checkpoint, "--runs": runs, "--forecast": forecast,
            "--score-since": score_since, "--calibration": calibration, "--team": team,
            "--team-from": team_from, "--map": rename, "--priority-of": priority_of,
            "--skip-unusable": skip_unusable, "--skip-unknown-teams": skip_unknown_teams,
        }  # fmt: skip
        if odd := [option for option, value in given.items() if value]:
            raise ClientError(f"{', '.join(odd)} is for a trace; with --own the history of the server is replayed.")
        if tries is not None and not advise:
            raise ClientError(_TRIES_WITHOUT_ADVICE)
        if advise and trace is not None:
            raise ClientError("--advise tries changes by itself: leave out the file with changes, or --advise.")
        replay_own_history(session, trace, since=since, until=until, backend=backend, is_advice=advise, tries=tries)
        return
    if trace is None or on is None:
        raise ClientError("Give a TRACE and its cluster (--on CLUSTER.yaml), or --own for the history of the server.")
    if backend is not None:
        raise ClientError("--backend belongs to --own; the cluster of a trace is a file (--on CLUSTER.yaml).")
    interval = 0 if checkpoint is None else values.span(checkpoint)
    if interval is None:
        raise ClientError(f"--checkpoint is not {values.A_SPAN}.")
    if not forecast and (score_since or calibration):
        raise ClientError("--score-since and --calibration are about forecasts: add --forecast.")
    if tries is not None and not advise:
        raise ClientError(_TRIES_WITHOUT_ADVICE)
    if advise and (
        odd := [name for name, value in (("--against", against), ("--runs", runs), ("--forecast", forecast)) if value]
    ):
        raise ClientError(f"{', '.join(odd)} is for one replay; --advise makes many and compares them itself.")
    options = trace_options(
        team=team, team_from=team_from, skip_unusable=skip_unusable, rename=rename, priority_of=priority_of,
        skip_unknown_teams=skip_unknown_teams,
    )  # fmt: skip
    request = ReplayRequest(
        trace, on, against, since, until, Priority(priority.value), ReplayRules(gpus_per_task, interval), runs,
        forecast, score_since, calibration, options,
    )  # fmt: skip
    report = TerminalReport()
    try:
        answer = advise_from_files(request, tries or DEFAULT_REPLAYS, report) if advise else run_replay(request, report)
    except ReplayFault as fault:
        details = [detail.as_dict() for detail in fault.details]
        raise ClientError(fault.message, details=details, error_code=fault.as_dict()["error_code"]) from None
    except StuckReplay as stuck:
        raise ClientError(str(stuck), exit_code=SERVER_FAILED) from None
    finally:
        report.clear()
    for note in answer.get("notes", ()):
        print_warning(f"Note: {note}")
    print_answer(session, answer, lambda: advice_text(answer) if advise else _replay_text(answer))


def _replay_text(answer: dict[str, Any]) -> AnswerText:
    if "difference" not in answer:
        cost = f"{answer['events']:,} arrivals and ends in {span_text(answer['seconds'])}"
        cost = f"{cost}, {answer['peak_memory_mib']} MiB."
        return [_summary_facts(answer["summary"]), team_table(answer["teams"], COLUMNS), *_forecast_part(answer), cost]
    difference = answer["difference"]
    names = {key: ", ".join(difference[key]) or "none" for key in ("better", "worse")}
    return [
        "ON", _summary_facts(answer["on"]["summary"]), team_table(answer["on"]["teams"], COLUMNS),
        "AGAINST", _summary_facts(answer["against"]["summary"]), team_table(answer["against"]["teams"], COLUMNS),
        "DIFFERENCE, against less on", _summary_facts(difference["summary"]), team_table(difference["teams"], COLUMNS),
        f"Shorter mean wait: {names['better']}. Longer: {names['worse']}.", *_forecast_part(answer),
    ]  # fmt: skip


def _forecast_part(answer: dict[str, Any]) -> list[Facts]:
    forecast = answer.get("forecast")
    if forecast is None:
        return []
    inside, cost = forecast["coverage_80"], forecast["ms_per_forecast"]
    return [
        Facts(
            [
                ("Forecasts", forecast["asked"]),
                ("Starts inside their 80 %", None if inside is None else f"{inside:.1%}"),
                ("Pinball loss", format_seconds(forecast["pinball"])),
                ("Loss of recent waits", format_seconds(forecast["pinball_baseline"])),
                ("Median error", format_seconds(forecast["median_abs_error_s"])),
                ("Time of a forecast", None if cost is None else f"{cost:.1f} ms"),
            ]
        )
    ]


def _summary_facts(summary: dict[str, Any]) -> Facts:
    used = summary["utilisation"]
    return Facts(
        [
            (_label("jobs"), f"{summary['jobs']}, finished {summary['finished']}, never started {summary['never']}"),
            (
                _label("used_gpu_h"),
                f"{format_decimal(summary['used_gpu_h'])} of {format_decimal(summary['capacity_gpu_h'])}",
            ),
            ("Utilisation", None if used is None else f"{used:.1%}"),
            *(
                (_label(key), format_number(key, summary[key]))
                for key in ("lost_gpu_h", "preemptions", "wait_mean_s", "wait_p50_s", "wait_p90_s", "wait_p99_s")
            ),
            (_label("slowdown_p50"), format_decimal(summary["slowdown_p50"])),
            ("Makespan", format_seconds(summary["makespan_s"])),
        ]
    )


def _label(key: str) -> str:
    return REPLAY_NUMBERS[key].heading
