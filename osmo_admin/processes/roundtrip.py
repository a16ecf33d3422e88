"""End-to-end check: submit a workflow over HTTP, wait until a Celery task has started it, clean up.

`python -m osmo_admin.processes.roundtrip URL`. It uses the pool `osmo-check`, which it archives afterwards and
reactivates at the next check; exit code 0 and one message, or 1 and the reason.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx

from osmo_admin.ops.programs.errors import OperationError
from osmo_admin.processes.operator_errors import exit_with_message
from pools.domain.changes.tokens import CreateToken, DeleteToken

CHECK_POOL = "osmo-check"
START_TIMEOUT_SECONDS = 60.0
_CHECK_POOL_CONFIG = {
    "backend": "simulated",
    "description": "Used by osmo-admin up --check.",
    "resources": {"gpu": {"guarantee": 1, "maximum": 1, "weight": 1}},
}
_CHECK_WORKFLOW = """workflow:
  name: osmo-check
  labels: {osmo/simulated-runtime: "600"}
  resources: {default: {gpu: 1}}
  tasks:
  - {name: check, image: none, command: ["true"]}
"""


@contextmanager
def _temporary_token() -> Iterator[str]:
    """A token of an active admin, deleted afterwards."""
    from django.utils import timezone

    from pools.domain.people.roles import PLATFORM_ADMIN, SYSTEM
    from pools.models import User
    from pools.services.people.access_tokens import create_token, delete_token

    admins = (user for user in User.objects.filter(is_active=True) if PLATFORM_ADMIN in user.as_actor().roles)
    owner = next(admins, None)
    if owner is None:
        raise OperationError(
            f"The check needs a user with the role {PLATFORM_ADMIN}, but there is none. "
            f"Create one: osmo-admin user create NAME --role {PLATFORM_ADMIN}"
        )
    name = f"check-{uuid4().hex[:12]}"
    soon = timezone.now() + timedelta(seconds=10 * START_TIMEOUT_SECONDS)
    secret = create_token(CreateToken(owner=owner.username, name=name, expires_at=soon), actor=SYSTEM)[1]
    try:
        yield secret
    finally:
        delete_token(DeleteToken(owner=owner.username, name=name), actor=SYSTEM)


def _call_api(client: httpx.Client, method: str, path: str, **options: Any) -> Any:
    """One API call. Raises OperationError with the response of the server."""
    try:
        answer = client.request(method, path, **options)
    except httpx.HTTPError as problem:
        raise OperationError(f"Check failed: {method} {path}: {problem}") from problem
    if answer.status_code != httpx.codes.OK:
        raise OperationError(f"Check failed: {method} {path} answered {answer.status_code}: {answer.text[:500]}")
    return answer.json()


def _wait_until_running(client: httpx.Client, workflow: str) -> float:
    """Wait until the workflow is RUNNING, and return the seconds."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < START_TIMEOUT_SECONDS:
        workflow_body = _call_api(client, "GET", f"/api/workflow/{workflow}")
        if workflow_body["status"] == "RUNNING":
            return waited
        if workflow_body["status"] != "PENDING":
            raise OperationError(f"Check failed: {workflow} became {workflow_body['status']} instead of RUNNING.")
        time.sleep(0.1)
    raise OperationError(
        f"Check failed: {workflow} was accepted but not started within {START_TIMEOUT_SECONDS:.0f} s; see worker.log."
    )


def run_round_trip(url: str) -> str:
    """Run the check. Returns the message of success; raises OperationError with the reason of a failure."""
    with _temporary_token() as secret, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        login = _call_api(client, "POST", "/api/auth/jwt/access_token", json={"token": secret})
        client.headers["Authorization"] = f"Bearer {login['token']}"
        _call_api(client, "PUT", f"/api/configs/pool/{CHECK_POOL}", json={"configs": _CHECK_POOL_CONFIG})
        workflow = ""
        try:
            workflow = _call_api(client, "POST", f"/api/pool/{CHECK_POOL}/workflow", json={"file": _CHECK_WORKFLOW})[
                "name"
            ]
            waited = _wait_until_running(client, workflow)
        finally:
            # The cleanup must not hide the failure of the check.
            with suppress(OperationError):
                if workflow:
                    _call_api(client, "POST", f"/api/workflow/{workflow}/cancel", params={"force": "True"})
                _call_api(client, "DELETE", f"/api/configs/pool/{CHECK_POOL}", json={"description": "check done"})
    return f"Check passed: {workflow} was accepted by the API and started by the worker after {waited:.1f} s."


def main() -> int:
    """The command line."""
    with exit_with_message():
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
        from osmo_admin.processes.django_setup import set_up_django

        set_up_django()
        print(run_round_trip(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
