"""Configuration that OSMO has and this house has not: said in a sentence instead of a bare 404."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.views import View
from pools.domain.errors import BadInput, Violation

OFFERED = "pool, backend, workflow"


class NotOffered(View):
    """Every `/api/configs/…` that no other view serves."""

    schema = None  # what is not offered is not in the OpenAPI file

    def get(self, request: Request, kind: str) -> Response:
        sentence = (
            f"{kind.partition('/')[0].upper()[:60]} configuration is not offered here. Offered are {OFFERED}; "
            "roles are given with osmo user."
        )
        raise BadInput(sentence, [Violation("", "not_offered", sentence)])

    post = put = patch = delete = get
