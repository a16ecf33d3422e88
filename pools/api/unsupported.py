"""Configuration that OSMO has and this house has not: said in a sentence instead of a bare 404."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.views import View
from pools.domain.errors import BadInput, NotFound, Violation

SUPPORTED_TEXT = "pool, backend, workflow"
SERVED_KINDS = frozenset({"pool", "backend", "workflow", "cohort", "gpu_quota", "history", "diff"})
"""What stands below `/api/configs/` and has views of its own; an address below one of these is only wrong."""


class UnsupportedConfiguration(View):
    """Every `/api/configs/…` that no other view serves."""

    schema = None  # what is not offered is not in the OpenAPI file

    def get(self, request: Request, kind: str) -> Response:
        first = kind.partition("/")[0]
        if first in SERVED_KINDS:
            raise NotFound("There is nothing at this address.")
        sentence = (
            f"{first.upper()[:60]} configuration is not offered here. Offered are {SUPPORTED_TEXT}; "
            "roles are given with osmo user."
        )
        raise BadInput(sentence, [Violation("", "not_offered", sentence)])

    post = put = patch = delete = get
