"""Configuration that OSMO has and this service does not offer: a message instead of a bare 404."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.views import View
from pools.domain.errors import BadInput, Fault, NotFound, Violation

OFFERED = "pool, backend, workflow"
SERVED_KINDS = frozenset({"pool", "backend", "workflow", "cohort", "gpu_quota", "history", "diff"})
"""The kinds below `/api/configs/` that have views of their own; an address below one of them is only wrong."""


class UnsupportedConfiguration(View):
    """Every `/api/configs/…` that no other view serves."""

    schema = None  # not part of the OpenAPI file

    def get(self, request: Request, kind: str) -> Response:
        first = kind.partition("/")[0]
        if first in SERVED_KINDS:
            raise NotFound("There is nothing at this address.")
        message = f"This configuration is not offered here. Offered are {OFFERED}; roles are given with osmo user."
        raise BadInput(message, [Violation("", Fault.NOT_OFFERED, message)])

    post = put = patch = delete = get
