"""One's own profile (contract, section 4)."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, boolean, unknown_keys
from pools.api.rendering import naive
from pools.api.schema import BOOLEAN, DRY_RUN, NULL, TEXT, TIME, array, documented, fields, nullable
from pools.api.views import View
from pools.domain.errors import BadInput, Violation
from pools.models import AccessToken, User
from pools.services.dry_run import effect_of
from pools.services.members import submittable, update_profile

PROFILE = fields(
    {
        "username": TEXT,
        "email_notification": BOOLEAN,
        "slack_notification": BOOLEAN,
        "pool": nullable(TEXT),
    }
)
SETTINGS = fields({"pool": TEXT, "email_notification": BOOLEAN, "slack_notification": BOOLEAN}, required=())


class ProfileSettings(View):
    """Who I am, what I may use, and what I chose."""

    @documented(
        "Show one's own name, roles, pools and settings.",
        answer=fields(
            {
                "profile": PROFILE,
                "roles": array(TEXT),
                "pools": array(TEXT),
                "token": nullable(fields({"name": TEXT, "expires_at": TIME})),
            }
        ),
    )
    def get(self, request: Request) -> Response:
        pools = list(submittable(self.actor).values_list("name", flat=True))
        token = request.auth if isinstance(request.auth, AccessToken) else None
        return Response(
            {
                "profile": self._profile(pools),
                "roles": sorted(self.actor.roles),
                "pools": pools,
                "token": {"name": token.name, "expires_at": naive(token.expires_at)} if token else None,
            }
        )

    @documented("Set the default pool, or switch a notification.", query=[DRY_RUN], body=SETTINGS, answer=NULL)
    def post(self, request: Request) -> Response:
        body = body_object(request)
        found = unknown_keys(body, "pool", "email_notification", "slack_notification", "description", "tags")
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

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=self._profile))

        def make() -> Response:
            deed()
            return Response(None)

        return self.once(make)

    def _profile(self, pools: list[str] | None = None) -> dict[str, Any]:
        user = User.objects.get(username=self.actor.username)
        # A default that one may no longer submit to would only fail later, at the first submission.
        usable = user.default_pool and (
            user.default_pool in pools
            if pools is not None
            else submittable(self.actor).filter(name=user.default_pool).exists()
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
