"""`osmo notice`: where notices go, which are chosen, and what came of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.command_decorator import client_command, command_group
from osmo_admin.cli.effect_text import show_effect
from osmo_admin.cli.http import url_path
from osmo_admin.cli.output import confirm, print_answer
from osmo_admin.cli.session import ClientSession, print_warning
from osmo_admin.cli.tables import AnswerPart, build_table

app = command_group("Notices about work, pools and the installation: by webhook, mail, Slack and others.")
TargetArgument = Annotated[int, typer.Argument(metavar="ID", help="Number of the target, from osmo notice targets.")]
KindsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kinds",
        metavar="KIND...",
        help="workflow_ended, preempted, long_wait, drain, quota_nearly_used, approval; of the installation "
        "also job_late, cluster_silent, configuration_refused. Default: all.",
    ),
]
PoolsOption = Annotated[
    list[str] | None, typer.Option("--pools", metavar="POOL...", help="Only about these pools. Default: all.")
]


def _target_url(*rest: str) -> str:
    return url_path("api", "notices", "target", *rest)


@client_command(app, "targets")
def targets(session: ClientSession) -> None:
    """List where notices go: your targets, those of pools that you administer, those of the installation."""
    answer = session.http().get(_target_url())
    print_answer(session, answer, lambda: _targets_table(answer))


def _targets_table(rows: list[dict[str, Any]]) -> AnswerPart:
    if not rows:
        return "No targets found. Add one: osmo notice add NAME webhook ADDRESS."
    cells = (
        [
            row.get("id"),
            row.get("name"),
            row.get("user") or (f"pool {row['pool']}" if row.get("pool") else "installation"),
            row.get("channel"),
            row.get("address"),
            row.get("kinds"),
            row.get("pools"),
            _state_text(row),
        ]
        for row in rows
    )
    return build_table(("ID", "Name", "Owner", "Channel", "Address", "Kinds", "Pools", "State"), cells)


def _state_text(row: dict[str, Any]) -> str:
    if not row.get("enabled"):
        return f"off: {row['off_reason']}" if row.get("off_reason") else "off"
    return f"{row['failures']} failures, again at {row.get('retry_at')}" if row.get("failures") else "on"


@client_command(app, "add", writes=True)
def add(
    session: ClientSession,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the target.")],
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="webhook, mail or apprise.")],
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="https://…, a mail address, or an address of Apprise (slack://…)."),
    ],
    kinds: KindsOption = None,
    pools: PoolsOption = None,
    pool: Annotated[str | None, typer.Option("--pool", help="A target of this pool, for its admins.")] = None,
    installation: Annotated[bool, typer.Option("--installation", help="A target of the installation.")] = False,
) -> None:
    """Add a target. The secret of a webhook is shown only once."""
    body: dict[str, Any] = {"name": name, "channel": channel, "address": address}
    body |= {key: value for key, value in (("kinds", kinds), ("pools", pools), ("pool", pool)) if value}
    body |= {"installation": True} if installation else {}
    answer = session.http().send_change("POST", _target_url(), query=session.dry_run_query, body=body)
    if session.dry_run:
        show_effect(session, answer)
        return
    if answer.get("secret") and not session.is_machine_readable:
        print_warning("Note: save the secret in a secure place, it will not be shown again.")
    print_answer(session, answer, lambda: _added_text(answer))


def _added_text(answer: dict[str, Any]) -> str:
    target = answer.get("target") or {}
    secret = f"\nSecret: {answer['secret']}" if answer.get("secret") else ""
    return f"Target {target.get('name')} added with the number {target.get('id')}.{secret}"


@client_command(app, "set", writes=True)
def set_(
    session: ClientSession,
    *,
    target: TargetArgument,
    address: Annotated[str | None, typer.Option("--address", help="A new address.")] = None,
    kinds: KindsOption = None,
    pools: PoolsOption = None,
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Send to it or not.")] = None,
) -> None:
    """Change a target."""
    values = {"address": address, "kinds": kinds or None, "pools": pools or None, "enabled": enabled}
    body = {key: value for key, value in values.items() if value is not None}
    answer = session.http().send_change("PATCH", _target_url(str(target)), query=session.dry_run_query, body=body)
    if session.dry_run:
        show_effect(session, answer)
    else:
        print_answer(session, answer, lambda: _targets_table([answer]))


@client_command(app, "delete", writes=True, confirms=True)
def delete(session: ClientSession, target: TargetArgument) -> None:
    """Delete a target and its notices."""
    confirm(session, f"Delete notice target {target}?")
    answer = session.http().send_change("DELETE", _target_url(str(target)), query=session.dry_run_query)
    if session.dry_run:
        show_effect(session, answer)
    else:
        print_answer(session, answer, lambda: f"Target {target} deleted.")


@client_command(app, "test")
def test(session: ClientSession, target: TargetArgument) -> None:
    """Send a test notice. It is sent within seconds; osmo notice list shows what came of it."""
    answer = session.http().send_change("POST", _target_url(str(target), "test"))
    print_answer(session, answer, lambda: f"Test notice {answer.get('id')} waits to be sent: osmo notice list.")


@client_command(app, "secret")
def secret(session: ClientSession, target: TargetArgument) -> None:
    """Replace the secret of a webhook. The new one is shown only once."""
    answer = session.http().send_change("POST", _target_url(str(target), "secret"))
    print_answer(session, answer, lambda: f"Secret: {answer.get('secret')}")


@client_command(app, "list")
def list_(
    session: ClientSession,
    *,
    status: Annotated[str | None, typer.Option("--status", help="waiting, delivered or dead.")] = None,
    target: Annotated[int | None, typer.Option("--target", help="Only those to this target.")] = None,
    count: Annotated[int, typer.Option("--count", "-c", min=1, max=1000, help="At most this many.")] = 20,
) -> None:
    """List notices, the newest first; dead ones are no longer tried."""
    query = {"status": status, "target": target, "limit": count}
    answer = session.http().get(url_path("api", "notices"), query=query)
    print_answer(session, answer, lambda: _notices_table(answer))


def _notices_table(answer: dict[str, Any]) -> AnswerPart:
    rows = answer.get("notices") or []
    if not rows:
        return "No notices found."
    cells = (
        [
            row.get("id"),
            row.get("created_at"),
            row.get("target_name"),
            row.get("title"),
            row.get("status"),
            row.get("attempts"),
            row.get("error"),
        ]
        for row in rows
    )
    return build_table(("ID", "Time (UTC)", "Target", "Notice", "Status", "Attempts", "Error"), cells)


@client_command(app, "replay")
def replay(
    session: ClientSession,
    *,
    notice: Annotated[str | None, typer.Argument(metavar="[NOTICE]", help="Id of a notice: msg_….")] = None,
    target: Annotated[int | None, typer.Option("--target", help="All dead letters of this target.")] = None,
) -> None:
    """Send a notice again with the same id, or all dead letters of a target."""
    if (notice is None) == (target is None):
        raise typer.BadParameter("Name a notice, or a target with --target.")
    if notice is not None:
        answer = session.http().send_change("POST", url_path("api", "notices", notice, "replay"))
        print_answer(session, answer, lambda: f"Notice {notice} waits to be sent again.")
        return
    answer = session.http().send_change("POST", _target_url(str(target), "replay"))
    print_answer(session, answer, lambda: f"{answer.get('notices')} notices wait to be sent again.")
