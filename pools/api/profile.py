"""The profile of the caller (contract, section 4)."""

from __future__ import annotations

from typing import Any, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import BodyReader, body_object, query_boolean
from pools.api.schema import BOOLEAN, DRY_RUN, NULL, TEXT, UtcText, describe_operation, object_with
from pools.api.views import View
from pools.api.warnings_header import warning_header
from pools.models import AccessToken, User
from pools.selectors.profile import read_profile_settings, submittable_pools
from pools.services.dry_run import read_effect
from pools.services.notice_targets import profile_warnings
from pools.services.users import update_profile

PROFILE_SETTINGS = object_with(
    {"pool": TEXT, "email_notification": BOOLEAN, "slack_notification": BOOLEAN, "email": TEXT}, required=()
)

_NOTIFICATIONS = ("email_notification", "slack_notification")


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


class ProfileSettings(View):
    """The caller's name, roles, pools and settings."""

    @describe_operation(
        "Show the caller's name, roles, pools and settings.",
        answer=CallerAnswer,
    )
    def get(self, request: Request) -> Response:
        pools = submittable_pools(self.actor)
        token = request.auth if isinstance(request.auth, AccessToken) else None
        answer: CallerAnswer = {
            "profile": self._profile(pools),
            "roles": sorted(self.actor.roles),
            "pools": pools,
            "token": {"name": token.name, "expires_at": utc_text(token.expires_at)} if token else None,
        }
        return Response(answer)

    @describe_operation(
        "Set the default pool, the mail address (empty: none), or switch a notification.",
        query_parameters=[DRY_RUN],
        body=PROFILE_SETTINGS,
        answer=NULL,
    )
    def post(self, request: Request) -> Response:
        reader = BodyReader(body_object(request))
        reader.reject_unknown_keys(("pool", "email", *_NOTIFICATIONS))
        chosen: dict[str, Any] = {
            key: reader.any_text(key) if reader.is_given(key) else None for key in ("pool", "email")
        }
        chosen |= {key: reader.boolean(key) if reader.is_given(key) else None for key in _NOTIFICATIONS}
        reader.raise_faults()

        def operation() -> User:
            return update_profile(actor=self.actor, **chosen)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(operation, read_state=self._profile))

        def make() -> Response:
            user = operation()
            switched_on = any(chosen[key] for key in _NOTIFICATIONS)
            return Response(None, headers=warning_header(profile_warnings(user) if switched_on else ()))

        return self.run_once(make, require=lambda: None)  # all users may change their own profile

    def _profile(self, pools: list[str] | None = None) -> ProfileAnswer:
        chosen = read_profile_settings(self.actor)
        # A default pool without the right to submit would only fail later, at the first submission.
        usable = chosen.default_pool in (submittable_pools(self.actor) if pools is None else pools)
        return {
            "username": self.actor.username,
            "email_notification": chosen.email_notification,
            "slack_notification": chosen.slack_notification,
            "pool": chosen.default_pool if usable else None,
            "email": chosen.email,
        }
