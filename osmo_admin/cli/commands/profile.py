"""`osmo profile`: the user's own name, roles, pools and settings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_pools
from osmo_admin.cli.base.output import print_answer, print_list
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import Facts, local_time
from osmo_admin.cli.changes import TypedChange
from pools.domain.changes.profiles import UpdateProfile
from pools.domain.list_columns import VIEW_COLUMNS

SETTINGS_URL = "api/profile/settings"
app = command_group("Your own profile.")


class ProfileSetting(StrEnum):
    """Settings that can be changed."""

    POOL = "pool"
    NOTIFICATIONS = "notifications"
    MAIL = "mail"


@client_command(app, "list")
def list_(session: ClientSession) -> None:
    """Show your name, roles, pools and settings.

    Example: osmo profile list
    """
    answer = session.http().get(SETTINGS_URL)
    print_answer(session, answer, lambda: _profile_text(answer))


@client_command(app, "views")
def views(session: ClientSession) -> None:
    """Show your saved views: your names for the filters of lists on the web pages.

    Example: osmo profile views
    """
    answer = session.http().get("api/profile/views")
    nothing = "No saved views. Filter a list on the web pages and choose “Save this view”."
    print_list(session, answer, VIEW_COLUMNS.values(), answer["views"], nothing)


def _profile_text(answer: dict[str, Any]) -> Facts:
    profile, token = answer.get("profile") or {}, answer.get("token") or {}
    lines = [
        ("User", profile.get("username")),
        ("Roles", answer.get("roles")),
        ("Pools", answer.get("pools")),
        ("Default pool", profile.get("pool")),
        ("Mail address", profile.get("email")),
        ("Email notifications", profile.get("email_notification")),
        ("Slack notifications", profile.get("slack_notification")),
    ]
    if token:
        lines.append(("Token", token.get("name")))
        lines.append(("Token expires", local_time(token.get("expires_at"))))
    return Facts(lines)


@client_command(app, "set", writes=True)
def set_(
    session: ClientSession,
    *,
    setting: Annotated[ProfileSetting, typer.Argument(metavar="SETTING", help="pool, mail or notifications.")],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE",
            help="Name of the pool; a mail address, '' for none; email or slack.",
            autocompletion=complete_pools,
        ),
    ],
    enabled: Annotated[
        bool, typer.Argument(metavar="[true|false]", help="For notifications: send them or not.")
    ] = True,
) -> None:
    """Set your default pool or your mail address, or switch a notification on or off.

    Example: osmo profile set pool vision--detect
    """
    if setting is ProfileSetting.POOL:
        body: dict[str, Any] = {"pool": value}
    elif setting is ProfileSetting.MAIL:
        body = {"email": value}
    elif value in ("email", "slack"):
        body = {f"{value}_notification": enabled}
    else:
        raise ClientError("There are two notifications: email and slack.")
    change = TypedChange(session, UpdateProfile, {})
    change.show(change.send("POST", SETTINGS_URL, body), lambda _: "Profile set.")


def find_default_pool(session: ClientSession) -> str:
    """The pool of a submission without --pool: the default pool of the profile, or the only pool.

    Raises :class:`ClientError` with the names of the pools if there are several.
    """
    answer = session.http().get(SETTINGS_URL)
    pool = (answer.get("profile") or {}).get("pool")
    if pool:
        return str(pool)
    pools = answer.get("pools") or []
    if len(pools) == 1:
        return str(pools[0])
    choice = f"You may use: {', '.join(pools)}." if pools else "You have no pool to submit to yet."
    raise ClientError(f"Name a pool with --pool, or set a default: osmo profile set pool NAME. {choice}")
