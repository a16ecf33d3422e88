"""People at the PodGroup endpoints: bodies go out as they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.support.world import make_user, sign_in

PostPodGroup = Callable[..., tuple[int, Any]]


def make_post(client: Client) -> PostPodGroup:
    """POST to `/api/podgroup/<which>`: (status, parsed JSON answer). Keyword arguments are headers."""

    def post(which: str, body: str | bytes, kind: str = "application/yaml", **headers: str) -> tuple[int, Any]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = client.generic("POST", f"/api/podgroup/{which}", body, content_type=kind, headers=sent)
        return response.status_code, response.json()

    return post


@pytest.fixture
def anonymous(db: None) -> PostPodGroup:
    """Nobody."""
    return make_post(Client())


@pytest.fixture
def post(db: None) -> PostPodGroup:
    """Somebody who is signed in and has no role."""
    make_user("ann")
    client = sign_in("ann")
    return make_post(client)
