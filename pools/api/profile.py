"""One's own profile (contract, section 4)."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.rendering import utc_text
from pools.api.request_parsing import body_object, query_boolean, unknown_key_violations
from pools.api.schema import BOOLEAN, DATETIME, DRY_RUN, NULL, TEXT, array_of, describe_operation, nullable, object_with
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.models import AccessToken, User
from pools.services.dry_run import read_effect
from pools.services.users import submittable_pools, update_profile

PROFILE = object_with(
    {
        "username": TEXT,
        "email_notification": BOOLEAN,
        "slack_notification": BOOLEAN,
        "pool": nullable(TEXT),
    }
)
PROFILE_SETTINGS = object_with(
    {"pool": TEXT, "email_notification": BOOLEAN, "slack_notification": BOOLEAN}, required=()
)


class ProfileSettings(View):
    """Who I am, what I may use, and what I chose."""

    @describe_operation(
        "Show one's own name, roles, pools and settings.",
        answer=object_with(
            {
                "profile": PROFILE,
                "roles": array_of(TEXT),
                "pools": array_of(TEXT),
                "token": nullable(object_with({"name": TEXT, "expires_at": DATETIME})),
            }
        ),
    )
    def get(self, request: Request) -> Response:
        pools = list(submittable_pools(self.actor).values_list("name", flat=True))
        token = request.auth if isinstance(request.auth, AccessToken) else None
        return Response(
            {
                "profile": self._profile(pools),
                "roles": sorted(self.actor.roles),
                "pools": pools,
                "token": {"name": token.name, "expires_at": utc_text(token.expires_at)} if token else None,
            }
        )

    @describe_operation(
        "Set the default pool, or switch a notification.",
        query_parameters=[DRY_RUN],
        body=PROFILE_SETTINGS,
        answer=NULL,
    )
    def post(self, request: Request) -> Response:
        body = body_object(request)
        found = unknown_key_violations(body, "pool", "email_notification", "slack_notification", "description", "tags")
        found += [
            Violation(key, "bad_value", f"{key} must be {what}.")
            for key, kind, what in _SETTINGS
            if body.get(key) is not None and not isinstance(body[key], kind)
        ]
        if found:
            raise BadInput.of(found)
        chosen = {key: body.get(key) for key, _, _ in _SETTINGS}

        def deed() -> None:
            update_profile(actor=self.actor, **chosen)

        if query_boolean(request, "dry_run"):
            return Response(read_effect(deed, read_state=self._profile))

        def make() -> Response:
            deed()
            return Response(None)

        return self.run_once(make)

    def _profile(self, pools: list[str] | None = None) -> dict[str, Any]:
        user = User.objects.get(username=self.actor.username)
        # A default that one may no longer submit to would only fail later, at the first submission.
        usable = user.default_pool and (
            user.default_pool in pools
            if pools is not None
            else submittable_pools(self.actor).filter(name=user.default_pool).exists()
        )
        return {
            "username": user.username,
            "email_notification": user.email_notification,
            "slack_notification": user.slack_notification,
            "pool": user.default_pool if usable else None,
        }


_SETTINGS: tuple[tuple[str, type, str], ...] = (
    ("pool", str, "the name of a pool"),
    ("email_notification", bool, "true or false"),
    ("slack_notification", bool, "true or false"),
)
