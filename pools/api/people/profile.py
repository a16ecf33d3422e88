"""The profile of the caller (design, O4)."""

from __future__ import annotations

from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.changes import ChangeAnswer, answer_change, describe_change, effect_on
from pools.api.rendering import utc_text
from pools.api.schema import NULL, UtcText, describe_operation
from pools.api.views import View
from pools.api.warnings_header import warning_header
from pools.domain.changes.profiles import UpdateProfile
from pools.domain.people.roles import Actor
from pools.models import AccessToken
from pools.selectors.profile import read_profile_settings, submittable_pools
from pools.services.people.notice_targets import profile_warnings
from pools.services.people.users import update_profile


class ProfileAnswer(TypedDict):
    """The settings of a user."""

    username: str
    email_notification: bool
    slack_notification: bool
    pool: str | None
    email: str


class UsedTokenAnswer(TypedDict):
    """The access token behind the login."""

    name: str
    expires_at: UtcText


class CallerAnswer(TypedDict):
    """The caller's settings, roles and pools; `token` is null for a login without an access token."""

    profile: ProfileAnswer
    roles: list[str]
    pools: list[str]
    token: UsedTokenAnswer | None


def _save(command: UpdateProfile, **note: Any) -> list[str]:
    """The warnings of a notification that was switched on."""
    user = update_profile(command, **note)
    return profile_warnings(user) if command.email_notification or command.slack_notification else []


def _render(warnings: list[str]) -> Response:
    return Response(None, headers=warning_header(warnings))


def _state(_: UpdateProfile, actor: Actor) -> ProfileAnswer:
    return _profile(actor)


_CHANGES: ChangeAnswer[UpdateProfile, list[str]] = ChangeAnswer(_render, effect_on(_state))


class ProfileSettings(View):
    """The caller's name, roles, pools and settings."""

    @describe_operation("Show the caller's name, roles, pools and settings.", answer=CallerAnswer)
    def get(self, request: Request) -> Response:
        pools = submittable_pools(self.actor)
        token = request.auth if isinstance(request.auth, AccessToken) else None
        answer: CallerAnswer = {
            "profile": _profile(self.actor, pools),
            "roles": sorted(self.actor.roles),
            "pools": pools,
            "token": {"name": token.name, "expires_at": utc_text(token.expires_at)} if token else None,
        }
        return Response(answer)

    @describe_change(UpdateProfile, answer=NULL)
    def post(self, request: Request) -> Response:
        return answer_change(self, UpdateProfile, _save, _CHANGES, {})


def _profile(actor: Actor, pools: list[str] | None = None) -> ProfileAnswer:
    chosen = read_profile_settings(actor)
    # A default pool without the right to submit would only fail later, at the first submission.
    usable = chosen.default_pool in (submittable_pools(actor) if pools is None else pools)
    return {
        "username": actor.username,
        "email_notification": chosen.email_notification,
        "slack_notification": chosen.slack_notification,
        "pool": chosen.default_pool if usable else None,
        "email": chosen.email,
    }
