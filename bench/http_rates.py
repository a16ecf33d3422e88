"""Requests per second over HTTP, on the machine of the database, the worker and the load, with the installation of
`request_cost`: 101 pools, 404 nodes, thousands of workflows, the scheduler running.

A row is the median of three rounds at one and at eight clients. `version` touches no table, so it is the floor of the
server; every other row is compared with it. `submission` sends all to one pool, `submission_all_pools` to the 100
others in turn; both are of one user. In `submission_users` and `submission_users_all_pools` each client is a user.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench import request_cost
from bench.installation import Installation
from bench.load import LoadRequest, LoadResult, run_load
from bench.pgbench import workflow_file

ROUNDS = 3
CLIENTS = (1, 8)
READS = ("version", "profile", "pool_quota_one", "pool_quota_all", "workflow_list", "queue", "workflow")
WRITES = ("dry_run", "submission", "submission_all_pools", "submission_users", "submission_users_all_pools")
TARGETS_PER_SECOND = {
    "workflow_list": 400, "pool_quota_all": 200, "submission_users": 250, "submission_users_all_pools": 250,
    "admission_review": 1000,
}  # fmt: skip
"""Issue targets at eight clients."""


def run(installation: Installation, *, seconds: int) -> dict[str, Any]:
    """Every row: requests per second and percentiles by number of clients, and its ratio to `version`."""
    name, mark = request_cost.fill_installation(is_offline=False)
    requests = request_cost.make_requests(name, mark)
    requests["submission_all_pools"] = replace(requests["submission"], path=_other_pool, body=_other_file)
    requests["submission_users"] = requests["submission"]
    requests["submission_users_all_pools"] = requests["submission_all_pools"]
    users = _make_users()
    rows: dict[str, Any] = {}
    for row in (*READS, *WRITES, "admission_review"):
        secrets = users if "_users" in row else [installation.secret]
        rows[row] = {
            str(clients): _measure(installation, secrets, requests[row], clients, seconds) for clients in CLIENTS
        }
    for row, by_clients in rows.items():
        for clients, values in by_clients.items():
            values["of_version"] = round(values["per_second"] / rows["version"][clients]["per_second"], 3)
        if row in TARGETS_PER_SECOND:
            reached = by_clients["8"]["per_second"] >= TARGETS_PER_SECOND[row]
            by_clients["8"] |= {"target_per_second": TARGETS_PER_SECOND[row], "within_target": reached}
    return rows


def _make_users() -> list[str]:
    """An access token of each of as many users as there are clients at most, who may submit to every pool."""
    from pools.domain.changes.tokens import CreateToken
    from pools.domain.changes.users import CreateUser
    from pools.domain.people.roles import PLATFORM_ADMIN, SYSTEM
    from pools.services.people.access_tokens import create_token
    from pools.services.people.users import create_user

    secrets = []
    for number in range(CLIENTS[-1]):
        create_user(CreateUser(id=f"bench{number}", roles=(PLATFORM_ADMIN,)), actor=SYSTEM)
        secrets.append(create_token(CreateToken(owner=f"bench{number}", name="bench"), actor=SYSTEM)[1])
    return secrets


def _other_pool(number: int) -> str:
    client, count = divmod(number, 100_000)  # clients begin at different pools, so they do not meet in each
    return f"/api/pool/{request_cost.BACKEND}{1 + (13 * client + count) % (request_cost.POOLS - 1)}/workflow"


def _other_file(number: int) -> bytes:
    return json.dumps({"file": workflow_file(f"other{number}")}).encode()


def _measure(
    installation: Installation, secrets: Sequence[str], request: request_cost.CostRequest, clients: int, seconds: int
) -> dict[str, Any]:
    """The round with the median rate."""
    rounds = []
    for number in range(ROUNDS):
        first = number * 1_000_000  # of the numbers of this round, so that no name is used twice

        def next_request(client: int, count: int, first: int = first) -> LoadRequest:
            unique = clients * 10_000_000 + first + client * 100_000 + count
            return LoadRequest(request.method, request.path(unique), request.body(unique))

        result = run_load(
            installation.base_url,
            [installation.login(secret) for secret in secrets],
            clients=clients,
            seconds=seconds,
            next_request=next_request,
        )
        _refuse_errors(request.path(0), result)
        rounds.append(result.summary())
    middle = statistics.median_low([each["per_second"] for each in rounds])
    return next(each for each in rounds if each["per_second"] == middle)


def _refuse_errors(path: str, result: LoadResult) -> None:
    """A rate of refusals says nothing."""
    if any(code >= 300 for code in result.statuses):
        raise SystemExit(f"{path} answered {result.statuses}")
