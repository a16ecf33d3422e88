"""`osmo notice`: where notices go, which are chosen, and what came of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import confirm, print_list
from osmo_admin.cli.base.session import ClientSession, print_warning
from osmo_admin.cli.base.tables import list_table
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.lists import list_command
from pools.domain.changes.command import summary_of
from pools.domain.changes.notices import (
    CreateTarget,
    DeleteTarget,
    MarkRead,
    RenewSecret,
    ReplayDeadNotices,
    ReplayNotice,
    SendTest,
    UpdateTarget,
)
from pools.domain.columns import pick
from pools.domain.list_columns import INBOX_COLUMNS, NOTICE_COLUMNS, TARGET_COLUMNS
from pools.domain.lists import InboxQuery, NoticeQuery
from pools.domain.structured_input.declared_values import fields_of
from pools.domain.values.counting import counted

app = command_group("Notices about work, pools and the installation: by webhook, mail, Slack and others.")
_ON_OR_OFF = typer.Option("--on/--off", help=fields_of(UpdateTarget)["enabled"].help)


_NEWS = typer.Argument(metavar="[NEWS]", help=fields_of(MarkRead)["news"].help)


def _inbox_url(*rest: str) -> str:
    return url_path("api", "notices", "inbox", *rest)


def _target_url(*rest: str) -> str:
    return url_path("api", "notices", "target", *rest)


@client_command(app, "destinations")
def destinations(session: ClientSession) -> None:
    """List where notices go: your destinations, those of pools that you administer, those of the installation.

    Example: osmo notice destinations
    """
    answer = session.http().get(_target_url())
    nothing = "No destinations found. Add one: osmo notice add NAME webhook ADDRESS."
    print_list(session, answer, TARGET_COLUMNS.values(), answer, nothing)


@change_command(app, "add", CreateTarget)
def add(session: ClientSession, change: TypedChange) -> None:
    """Add a destination. The secret of a webhook is shown only once.

    Example: osmo notice add alerts webhook https://hooks.example.com/gpu
    """
    answer = change.send("POST", _target_url())
    if not session.dry_run and answer.get("secret") and not session.is_machine_readable:
        print_warning("Note: save the secret in a secure place, it will not be shown again.")
    change.show(answer, _added_text)


def _added_text(answer: dict[str, Any]) -> str:
    target = answer.get("target") or {}
    secret = f"\nSecret: {answer['secret']}" if answer.get("secret") else ""
    return f"Destination {target.get('name')} added with the number {target.get('id')}.{secret}"


@change_command(app, "set", UpdateTarget, options={"enabled": Annotated[bool | None, _ON_OR_OFF]})
def set_(_: ClientSession, change: TypedChange) -> None:
    """Change a destination.

    Example: osmo notice set 7 --off
    """
    answer = change.send("PATCH", _target_url(str(change["target"])))
    change.show(answer, lambda target: list_table(TARGET_COLUMNS.values(), [target]))


@change_command(app, "delete", DeleteTarget, confirms=True)
def delete(session: ClientSession, change: TypedChange) -> None:
    """Delete a destination and its notices.

    Example: osmo notice delete 7
    """
    target = change["target"]
    confirm(session, f"Delete notice destination {target}?")
    change.show(change.send("DELETE", _target_url(str(target))), lambda _: f"Destination {target} deleted.")


@change_command(app, "test", SendTest)
def test(_: ClientSession, change: TypedChange) -> None:
    """Send a test notice. It is sent within seconds; osmo notice list shows what came of it.

    Example: osmo notice test 7
    """
    answer = change.send("POST", _target_url(str(change["target"]), "test"))
    change.show(answer, lambda notice: f"Test notice {notice.get('id')} waits to be sent: osmo notice list.")


@change_command(app, "secret", RenewSecret)
def secret(_: ClientSession, change: TypedChange) -> None:
    """Replace the secret of a webhook. The new one is shown only once.

    Example: osmo notice secret 7
    """
    answer = change.send("POST", _target_url(str(change["target"]), "secret"))
    change.show(answer, lambda renewed: f"Secret: {renewed.get('secret')}")


@list_command(app, "list", NoticeQuery)
def list_(session: ClientSession, query: dict[str, Any]) -> None:
    """List notices, the newest first; dead ones are no longer tried.

    Example: osmo notice list --status dead
    """
    answer = session.http().get(url_path("api", "notices"), query=query)
    columns = pick(NOTICE_COLUMNS, "id time target notice status attempts error")
    print_list(session, answer, columns, answer["notices"], "No notices found.")


@list_command(app, "inbox", InboxQuery)
def inbox(session: ClientSession, query: dict[str, Any]) -> None:
    """List your news, the newest first: of your work, and of pools that you administer.

    Example: osmo notice inbox --unread
    """
    answer = session.http().get(_inbox_url(), query=query)
    columns = pick(INBOX_COLUMNS, "id time read news")
    print_list(session, answer, columns, answer["news"], "There is nothing new.")


@change_command(app, "read", MarkRead, options={"news": Annotated[int | None, _NEWS]})
def read(_: ClientSession, change: TypedChange) -> None:
    """Mark a piece of news as read, or all without a number.

    Example: osmo notice read 7
    """
    news = change["news"]
    answer = change.send("POST", _inbox_url("read") if news is None else _inbox_url(str(news), "read"))
    change.show(answer, lambda body: f"Marked as read: {body.get('marked')}.")


_REPLAY_OPTIONS = {
    "notice": Annotated[str | None, typer.Argument(metavar="[NOTICE]", help=fields_of(ReplayNotice)["notice"].help)],
    "target": Annotated[int | None, typer.Option("--destination", help=summary_of(ReplayDeadNotices))],
}


@change_command(app, "replay", ReplayNotice, options=_REPLAY_OPTIONS)
def replay(_: ClientSession, change: TypedChange) -> None:
    """Send a notice again with the same id, or all dead letters of a destination.

    Example: osmo notice replay --destination 7
    """
    notice, target = change["notice"], change["target"]
    if (notice is None) == (target is None):
        raise typer.BadParameter("Name a notice, or a destination with --destination.")
    if notice is not None:
        answer = change.send("POST", url_path("api", "notices", notice, "replay"))
        change.show(answer, lambda _: f"Notice {notice} waits to be sent again.")
    else:
        answer = change.send("POST", _target_url(str(target), "replay"))
        change.show(
            answer,
            lambda sent: f"{counted(sent.get('notices', 0), 'notice waits', 'notices wait')} to be sent again.",
        )
