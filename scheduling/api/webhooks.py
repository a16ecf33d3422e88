"""What a Kubernetes API server asks (`/webhooks/…`), and how the webhooks of a backend are set (`/api/configs/…`)."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.http import body_object, boolean, etag, expected_version, only, unwrapped
from pools.api.schema import DRY_RUN, OBJECT, TEXT, TIME, WHOLE, array, documented, fields
from pools.api.views import View
from pools.permissions import require_house
from pools.services.dry_run import effect_of
from scheduling.domain.cluster.membership import Kind
from scheduling.services.webhooks.queue_guard import MODES, SHOWN_KEYS, bypasses, guard_body, put_guard, read_guard
from scheduling.services.webhooks.reviews import review

REVIEW = fields({"apiVersion": TEXT, "kind": TEXT, "request": OBJECT}, required=["apiVersion", "request"], more=True)
ANSWER = fields({"apiVersion": TEXT, "kind": TEXT, "response": OBJECT})
SETTINGS = {"mode": {"type": "string", "enum": list(MODES)}, "identity": TEXT, "accounts": array(TEXT)}
GUARD = fields({"backend": TEXT, **SETTINGS, "version": WHOLE})
BYPASS = fields(
    {
        "kind": TEXT,
        "namespace": TEXT,
        "username": TEXT,
        "code": TEXT,
        "object_name": TEXT,
        "message": TEXT,
        "tries": WHOLE,
        "refused": WHOLE,
        "first_at": TIME,
        "last_at": TIME,
    }
)


class _Review(View):
    """An API server has no login here: the answer tells nothing that it did not send, and changes nothing."""

    authentication_classes = ()
    permission_classes = ()
    kind: Kind

    def answered(self, request: Request, backend: str | None) -> Response:
        """The AdmissionReview with our answer."""
        return Response(review(self.kind, body_object(request), backend=backend))


class PodReview(_Review):
    """May this pod use the queue it names?"""

    kind = Kind.POD

    @documented("Judge a pod for a Kubernetes API server.", body=REVIEW, answer=ANSWER, anonymous=True)
    def post(self, request: Request, backend: str | None = None) -> Response:
        return self.answered(request, backend)


class PodGroupReview(_Review):
    """Do its minimums make sense, and may it use the queue it names?"""

    kind = Kind.POD_GROUP

    @documented("Judge a PodGroup for a Kubernetes API server.", body=REVIEW, answer=ANSWER, anonymous=True)
    def post(self, request: Request, backend: str | None = None) -> Response:
        return self.answered(request, backend)


class Guard(View):
    """How strict the webhooks of a backend are, and whom they let in."""

    @documented("Show how a backend's webhooks are set.", answer=GUARD)
    def get(self, request: Request, backend: str) -> Response:
        row = read_guard(self.actor, backend)
        return Response(guard_body(row), headers=etag(row.version))

    @documented(
        "Set mode, identity or allowed accounts of a backend's webhooks.",
        query=[DRY_RUN],
        body=fields(SETTINGS, required=[]),
        answer=GUARD,
    )
    def put(self, request: Request, backend: str) -> Response:
        require_house(self.actor)
        body, description, _ = unwrapped(request)
        only(body, *SHOWN_KEYS, "backend", "version")
        version = expected_version(request)

        def deed() -> Response:
            row = put_guard(
                actor=self.actor, backend=backend, body=body, description=description, expected_version=version
            )
            return Response(guard_body(row), headers=etag(row.version))

        if boolean(request, "dry_run"):
            return Response(effect_of(deed, read=lambda: guard_body(read_guard(self.actor, backend))))
        return deed()


class Bypasses(View):
    """Who tried to go around the house."""

    @documented(
        "List who tried to use a backend's queues around the house.", answer=fields({"bypasses": array(BYPASS)})
    )
    def get(self, request: Request, backend: str) -> Response:
        rows = bypasses(self.actor, backend)
        names = BYPASS["properties"]
        return Response({"bypasses": [{name: getattr(row, name) for name in names} for row in rows]})
