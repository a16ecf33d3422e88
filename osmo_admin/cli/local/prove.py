"""`prove`: a recorded month under a configuration that was imported, as a page and a file of jobs, without a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osmo_admin.cli.base.client_errors import SERVER_FAILED, ClientError
from osmo_admin.cli.local.file_faults import MAX_SHOWN, print_faults
from osmo_admin.cli.local.terminal_report import TerminalReport
from osmo_admin.cli.local.trace_options import TeamFrom, trace_options
from scheduling.domain.priorities import Priority

if TYPE_CHECKING:
    from scheduling.domain.engine.facts import NodeFacts
    from scheduling.history.proof.prove import Proof

PAGE_FILE, JOBS_FILE = "proof.html", "jobs.csv"
UNREADABLE = 1


def prove(
    folder: Annotated[Path, typer.Option("--file", "-f", metavar="DIR", help="The folder that import wrote.")],
    history: Annotated[
        str,
        typer.Option("--history", metavar="FILE", help="The output of sacct -P, a log of workloads, or .swf."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help=f"Folder for {PAGE_FILE} and {JOBS_FILE}.", file_okay=False),
    ] = Path("proof"),
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="12x8,a100=4x4", help="Nodes x GPUs in place of the nodes of the folder."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="NAME", help="The cluster, where the pools are on several.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="The begin of the month: what ran or waited then takes part and is left out of the sums.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only jobs submitted before this time.")
    ] = None,
    priority: Annotated[Priority, typer.Option("--priority", help="The priority of jobs without one.")] = Priority.LOW,
    priority_of: Annotated[
        list[str] | None,
        typer.Option("--priority-of", metavar="QOS=PRIORITY", help="The priority of a QOS or class. May be repeated."),
    ] = None,
    team: Annotated[str | None, typer.Option("--team", metavar="POOL", help="The pool of jobs without a team.")] = None,
    team_from: Annotated[
        TeamFrom | None, typer.Option("--team-from", help="What is the team: account (sacct), queue (.swf) or another.")
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="TEAM=POOL", help="The pool of a team of another name. May be repeated."),
    ] = None,
    skip_unusable: Annotated[
        bool, typer.Option("--skip-unusable", help="Leave out and count jobs that have a fault.")
    ] = False,
    skip_unknown_teams: Annotated[
        bool, typer.Option("--skip-unknown-teams", help="Leave out and name teams that have no pool in the folder.")
    ] = False,
    gpus_per_task: Annotated[
        int, typer.Option("--gpus-per-task", min=1, help="A larger job is a gang of tasks of this size.")
    ] = 8,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="SECONDS", help="A preempted job goes on from its last multiple of these."
        ),
    ] = None,
) -> None:
    """Replay a recorded month under an imported configuration: what would have been different, job by job and in sum.

    Exit code 0: done; 1: a file or an option cannot be read, each fault with its line.
    """
    from pools.domain.errors import BadInput
    from scheduling.configuration.folders import write_whole
    from scheduling.history.proof.page import proof_page
    from scheduling.history.proof.prove import ProofRequest
    from scheduling.history.proof.prove import prove as make_proof
    from scheduling.history.replay.clock import ReplayRules, StuckReplay
    from scheduling.history.traces.faults import ReplayFault

    report = TerminalReport()
    try:
        options = trace_options(
            team=team, team_from=team_from, skip_unusable=skip_unusable, rename=rename, priority_of=priority_of,
            skip_unknown_teams=skip_unknown_teams,
        )  # fmt: skip
        request = ProofRequest(
            folder, history, str(output / JOBS_FILE), _nodes(nodes), backend, since, until, priority,
            ReplayRules(gpus_per_task, _interval(checkpoint)), options,
        )  # fmt: skip
        output.mkdir(parents=True, exist_ok=True)
        proof = make_proof(request, report)
        write_whole(output / PAGE_FILE, proof_page(proof))
    except (BadInput, ReplayFault) as refusal:
        print_faults(refusal)
        raise typer.Exit(UNREADABLE) from None
    except (ClientError, OSError) as problem:
        print(problem, file=sys.stderr)
        raise typer.Exit(UNREADABLE) from None
    except StuckReplay as stuck:
        print(stuck, file=sys.stderr)
        raise typer.Exit(SERVER_FAILED) from None
    finally:
        report.clear()
    _print(proof)
    print(f"\n{output / PAGE_FILE}: to read and print. {output / JOBS_FILE}: every job.")


def _nodes(text: str | None) -> list[NodeFacts] | None:
    from scheduling.history.proof.given_nodes import FORM, read_nodes

    found = None if text is None else read_nodes(text)
    if text is not None and found is None:
        raise ClientError(f"--nodes must be {FORM}.")
    return found


def _interval(text: str | None) -> int:
    from scheduling.history.traces import values

    found = 0 if text is None else values.span(text)
    if found is None:
        raise ClientError(f"--checkpoint is not {values.A_SPAN}.")
    return found


def _print(proof: Proof) -> None:
    from scheduling.history.proof.numbers import NONE, hours_text, pairs, verdict_sentence
    from scheduling.history.proof.outcomes import ShareVerdict

    print(verdict_sentence(proof.comparison.whole))
    rows = [("", "before", "after", "difference"), *pairs(proof)]
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    for label, *cells in rows:
        print(
            "  ".join(
                [label.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))]
            )
        )
    for verdict in (ShareVerdict.LESS, ShareVerdict.MORE):
        teams = [each for each in proof.comparison.teams.values() if each.verdict is verdict]
        teams.sort(key=lambda each: (-abs(each.delay), each.name))
        named = ", ".join(f"{each.name} ({hours_text(each.delay, signed=True)})" for each in teams[:MAX_SHOWN])
        print(f"Gets {verdict} (delay in GPU-hours): {named or NONE}")
    for sentence in (*proof.counted, *proof.untold):
        print(f"Note: {sentence}")
