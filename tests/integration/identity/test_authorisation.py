"""Each changing operation of docs/openapi.yaml, on what belongs to ann: who may call it, that its dry run writes
nothing, and that it refuses a version that is not in force.

A new operation is an osmo-admin's alone until `MAY` says otherwise, and the call of everybody who may has to succeed:
behind a wrong address or body no missing check would be seen.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction

from pools.domain.changes.backends import PutBackend
from pools.domain.changes.notices import CreateTarget, SendTest
from pools.domain.changes.pools import PutPool
from pools.domain.changes.saved_views import SaveView
from pools.domain.changes.tokens import CreateToken
from pools.domain.changes.users import RevokeRole, SetActive
from pools.domain.people.notices import NoticeKind, NoticeStatus
from pools.domain.people.roles import Actor
from pools.domain.people.saved_views import FilteredList
from pools.models import InboxNotice, Notice, Pool, SignOnIdentity, User
from scheduling.domain.changes.workflows import CancelWorkflow
from tests.integration.pools.conftest import make_sim, pool_config
from tests.support import world
from tests.support.api_client import ApiAnswer, ApiClient
from tests.support.product_source import described_addresses
from tests.support.world import ModuleData

CHANGES = [
    (f"{method.upper()} {path}", described)
    for path, methods in described_addresses().items()
    for method, described in methods.items()
    if method in {"post", "put", "patch", "delete"}
]
OPERATIONS = [name for name, described in CHANGES if described["security"]]
PARAMETERS = {name: {each["name"] for each in described.get("parameters", ())} for name, described in CHANGES}

ROLES = {
    "root": ["osmo-admin"],
    "ann": ["osmo-team-admin", "osmo-far-user", "osmo-viewer"],
    "researcher": ["osmo-team-user"],
    "viewer": ["osmo-viewer"],
    "far_admin": ["osmo-far-admin"],
    "nobody": [],
    "disabled": ["osmo-admin"],
}
TOKENS = {"ann_reads": "osmo-viewer", "ann_far": "osmo-far-user", "ann_leads": "osmo-team-admin"}
"""Tokens of ann with one of their roles."""

PERSON = {"root", "ann", "researcher", "viewer", "far_admin", "nobody"}
SIGNED_IN = PERSON | set(TOKENS)
POOL_ADMIN = {"root", "ann", "ann_leads"}
SUBMITTER = POOL_ADMIN | {"researcher"}
READER_OF_THE_CLUSTER = POOL_ADMIN | {"viewer", "far_admin", "ann_reads"}
OWNER = {"ann"}
OWNER_OR_ROOT = {"root", "ann"}

MAY = {
    "DELETE /api/auth/access_token/{name}": OWNER,
    "DELETE /api/configs/pool/{parent}/subpool/{subpool}": POOL_ADMIN,
    "DELETE /api/gpu_quota/{namespace}/allocation/{name}": POOL_ADMIN,
    "DELETE /api/notices/target/{target}": OWNER_OR_ROOT,
    "DELETE /api/profile/views/{page}/{name}": OWNER,
    "PATCH /api/configs/pool/{parent}/subpool/{subpool}": POOL_ADMIN,
    "PATCH /api/configs/subpool_quotas": POOL_ADMIN,
    "PATCH /api/gpu_quota/{namespace}/allocation/{name}": POOL_ADMIN,
    "PATCH /api/notices/target/{target}": OWNER_OR_ROOT,
    "POST /api/auth/access_token/{name}": SIGNED_IN,
    "POST /api/configs/approval/{approval}/withdraw": {"ann", "ann_leads"},
    "POST /api/configs/pool/{parent}/subpool": POOL_ADMIN,
    "POST /api/gpu_quota/{namespace}/allocation": POOL_ADMIN,
    "POST /api/gpu_quota/{namespace}/allocation/{name}/commit": POOL_ADMIN,
    "POST /api/notices/inbox/read": PERSON,
    "POST /api/notices/inbox/{news}/read": OWNER,
    "POST /api/notices/target": PERSON,
    "POST /api/notices/target/{target}/replay": OWNER_OR_ROOT,
    "POST /api/notices/target/{target}/secret": OWNER_OR_ROOT,
    "POST /api/notices/target/{target}/test": OWNER_OR_ROOT,
    "POST /api/notices/{notice}/replay": OWNER_OR_ROOT,
    "POST /api/podgroup/plan": SIGNED_IN,
    "POST /api/podgroup/validate": SIGNED_IN,
    "POST /api/pool/{pool}/workflow": SUBMITTER,
    "POST /api/pool/{pool}/workflow/{workflow}/restart": SUBMITTER,
    "POST /api/pool/{pool}/workflows": SUBMITTER,
    "POST /api/profile/settings": PERSON,
    "POST /api/replay": READER_OF_THE_CLUSTER,
    "POST /api/replay/{replay}/cancel": {"ann", "ann_reads"},
    "POST /api/simulate": READER_OF_THE_CLUSTER,
    "POST /api/workflow/{name}/cancel": POOL_ADMIN,
    "POST /api/workflow/{name}/end": POOL_ADMIN,
    "POST /api/workflow/{name}/tag": POOL_ADMIN,
    "PUT /api/profile/views/{page}/{name}": PERSON,
}
"""Who may call what is not an osmo-admin's alone."""

WITHOUT_LOGIN = {
    "/api/auth/client_login", "/api/auth/client_login/password", "/api/auth/client_login/token",
    "/api/auth/jwt/access_token",
}  # fmt: skip
"""A password, a code or a secret is in the body. Reviews of a Kubernetes API server have none either."""

POD_GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "p"},
             "spec": {"minMember": 1}}  # fmt: skip
TEAM = pool_config(50, approval_above=10, gpu_quota_namespace="ns-1")
AMOUNT = {"tflops": "1", "vram": "1Gi"}
BODIES: dict[str, Any] = {
    "PATCH /api/configs/pool/{name}": {"configs_dict": {"description": "d"}},
    "PATCH /api/configs/pool/{parent}/subpool/{subpool}": {"quota": 9},
    "PATCH /api/configs/subpool_quotas": {"quotas": {"team--a": 9}},
    "PATCH /api/gpu_quota/{namespace}/allocation/{name}": {"request": AMOUNT},
    "POST /api/auth/user": {"id": "new"},
    "POST /api/auth/user/{user}/roles": {"role_name": "osmo-team-admin"},
    "POST /api/configs/history/rollback": {"revision": 1, "config_type": "POOL"},
    "POST /api/configs/history/{config_type}/revision/{revision}/tags": {"set_tags": ["t"]},
    "POST /api/configs/pool/{parent}/subpool": {"subpool_name": "b", "quota": 1},
    "POST /api/gpu_quota/{namespace}/allocation": {"id": "w2", "workload": "x", "request": AMOUNT},
    "POST /api/gpu_quota/rebuild": {"namespace": "ns-1"},
    "POST /api/notices/target": {"name": "more", "channel": "webhook", "address": "https://x.example/"},
    "POST /api/podgroup/plan": {"podgroup": POD_GROUP},
    "POST /api/podgroup/validate": POD_GROUP,
    "POST /api/pool/{pool}/workflow": {"file": world.workflow_file()},
    "POST /api/pool/{pool}/workflows": {"workflows": [{"file": world.workflow_file()}]},
    "POST /api/profile/settings": {"email": "else@example.com"},
    "POST /api/replay": {"since": "2026-01-01T00:00:00", "until": "2026-01-02T00:00:00"},
    "POST /api/simulate": {"live": True},
    "POST /api/workflow/{name}/end": {"status": "COMPLETED"},
    "PUT /api/configs/backend/{backend}/webhook": {"mode": "off"},
    "PUT /api/configs/backend/{name}": {"description": "d"},
    "PUT /api/configs/cohort/{name}": {},
    "PUT /api/configs/gpu_quota/{namespace}": {"spec": {}},
    "PUT /api/configs/pool": {"configs": {"new": pool_config(1)}},
    "PUT /api/configs/pool/{name}": {"configs": TEAM},
    "PUT /api/configs/pool/{name}/platform/{platform}": {"configs": {}},
    "PUT /api/configs/pool/{name}/platform/{platform}/rename": {"new_name": "other"},
    "PUT /api/configs/pool/{name}/rename": {"new_name": "other"},
    "PUT /api/configs/workflow": {"max_retry_per_task": 1},
    "PATCH /api/configs/workflow": {"max_retry_per_task": 1},
    "PUT /api/profile/views/{page}/{name}": {"query": "q=1"},
}
PLACES = {
    "backend": "sim", "config_type": "POOL", "namespace": "ns-1", "node": "n1", "page": "pools", "parent": "team",
    "platform": "default", "pool": "team", "provider": "corp", "revision": "1", "role": "osmo-team-user",
    "subpool": "a", "user": "mia", "workflow": "over-1",
}  # fmt: skip
NAMES = {
    "/api/auth/access_token/{name}": "anns", "/api/auth/user/{user}/access_token/{name}": "mias",
    "/api/configs/backend": "sim", "/api/configs/cohort": "c1", "/api/configs/pool": "team", "/api/gpu_quota": "w",
    "/api/profile/views": "v", "/api/workflow": "work-1",
}  # fmt: skip
"""What `{name}` stands for, by the beginning of an address."""
OTHER_NAMES = {
    "DELETE /api/configs/backend/{name}": "empty", "DELETE /api/configs/pool/{name}": "far",
    "POST /api/auth/access_token/{name}": "new", "POST /api/auth/user/{user}/access_token/{name}": "new",
    "PUT /api/configs/pool/{name}/rename": "far",
}  # fmt: skip
LATER_REFUSALS = {
    "POST /api/backend/{backend}/sync": 409, "POST /api/backend/{backend}/test": 409, "POST /api/replay": 429,
}  # fmt: skip
"""Of those who may: a simulated cluster has neither, and ann has a replay that waits."""


@pytest.fixture(scope="module")
def installation(module_data: ModuleData) -> tuple[dict[str, str], dict[str, ApiClient]]:
    """The names of ann's objects, and the callers."""
    with module_data():
        make_sim()
        world.apply_change(PutBackend(name="empty", body={"namespace": "empty", "nodes": []}))
        world.apply_change(PutPool(name="team", body=TEAM))
        world.apply_change(PutPool(name="far", body=pool_config(10)))
        world.make_subpool("team", "a", 10)
        people = {name: world.make_user(name, *roles) for name, roles in ROLES.items()}
        callers = {name: world.call_as(name) for name in people} | {"anonymous": ApiClient()}
        callers |= {name: world.call_as("ann", token_roles=(role,)) for name, role in TOKENS.items()}
        world.apply_change(SetActive(username="disabled", active=False))
        world.make_user("mia", "osmo-team-user")
        for owner in ("ann", "mia"):
            world.apply_change(CreateToken(owner=owner, name=f"{owner}s"))
        identity = {"provider": "corp", "issuer": "https://idp.example.com", "subject": "1"}
        SignOnIdentity.objects.create(user=User.objects.get(username="mia"), **identity)
        return PLACES | _make_objects(people["ann"], callers["root"], callers["ann"]), callers


def _make_objects(ann: Actor, root: ApiClient, ann_calls: ApiClient) -> dict[str, str]:
    for path, body in (("cohort/c1", {}), ("gpu_quota/ns-1", {"spec": {}})):
        root("PUT", f"/api/configs/{path}", body)
    root.post("/api/gpu_quota/ns-1/allocation", {"id": "w", "workload": "x", "request": AMOUNT})
    for name in ("work", "over"):
        world.submit_workflow(ann, "team", name=name)
    world.apply_change(CancelWorkflow(name="over-1"))
    world.reconcile()
    target = world.apply_change(CreateTarget(name="hook", channel="webhook", address="https://x.example/"), actor=ann)
    notice = world.apply_change(SendTest(target=target[0].pk), actor=ann)
    Notice.objects.filter(pk=notice.pk).update(status=NoticeStatus.DEAD, attempts=1)
    world.apply_change(SaveView(page=FilteredList.POOLS, name="v", query="q=1"), actor=ann)
    news = InboxNotice.objects.create(
        entry=1, kind=NoticeKind.DRAIN, subject="pool/team", title="t", text="t",
        pool=Pool.objects.get(name="team"), owner_id=ann.user_id,
    )  # fmt: skip
    replay = ann_calls.post("/api/replay", BODIES["POST /api/replay"])
    approval = world.request_quota(ann, "team", "a", 40)
    return {
        "approval": str(approval.pk), "news": str(news.pk), "notice": f"msg_{notice.message_id}",
        "replay": replay["id"], "target": str(target[0].pk),
    }  # fmt: skip


def test_every_address_without_login_is_meant() -> None:
    found = {name.partition(" ")[2] for name, described in CHANGES if not described["security"]}
    assert {path for path in found if not path.startswith("/webhooks/")} == WITHOUT_LOGIN
    assert set().union(MAY, BODIES, OTHER_NAMES, LATER_REFUSALS) <= set(OPERATIONS)


Installation = tuple[dict[str, str], dict[str, ApiClient]]


def _call(operation: str, who: ApiClient, places: dict[str, str], *, undo: bool = True, **more: Any) -> ApiAnswer:
    """Call it on ann's objects."""
    method, path = operation.split()
    start = max((each for each in NAMES if path.startswith(each)), key=len, default="")
    address = path.format_map(places | {"name": OTHER_NAMES.get(operation, NAMES.get(start, ""))})
    point = transaction.savepoint()
    answer = who(method, address, BODIES.get(operation, {} if method != "DELETE" else None), **more)
    if undo:
        transaction.savepoint_rollback(point)
    return answer


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_may(operation: str, installation: Installation, db: None) -> None:
    """The dry run is refused as the change is."""
    places, callers = installation
    may, wrong = MAY.get(operation, {"root"}), {}
    for who, call in callers.items():
        answers = [_call(operation, call, places)]
        refusals = {401} if who in {"anonymous", "disabled"} else {403, 404}
        if who not in may and "dry_run" in PARAMETERS[operation]:
            answers.append(_call(operation, call, places, query={"dry_run": True}))
        for answer in answers:
            is_done = answer.status < 300 or answer.status == LATER_REFUSALS.get(operation)
            if not (is_done if who in may else answer.status in refusals):
                wrong[who] = (answer.status, answer.text[:300])
    assert not wrong, "\n".join(f"{who} {answer}" for who, answer in wrong.items())


def _rows() -> dict[str, str]:
    """A digest of each table of ours."""
    tables = [
        model._meta.db_table for app in ("pools", "scheduling") for model in apps.get_app_config(app).get_models()
    ]
    digest = "SELECT '{0}', coalesce(md5(string_agg(row::text, '' ORDER BY row::text)), '') FROM {0} AS row"
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(map(digest.format, tables)))
        return dict(cursor.fetchall())


def _allowed(operation: str, callers: dict[str, ApiClient]) -> ApiClient:
    return callers["root" if "root" in MAY.get(operation, {"root"}) else "ann"]


def test_a_dry_run_writes_nothing(installation: Installation, db: None) -> None:
    places, callers = installation
    before = _rows()
    for operation in OPERATIONS:
        if "dry_run" in PARAMETERS[operation]:
            answer = _call(operation, _allowed(operation, callers), places, query={"dry_run": True}, undo=False)
            assert answer.status == 200, (operation, answer.text)
            assert _rows() == before, operation


def test_a_version_that_is_not_in_force_is_refused(installation: Installation, db: None) -> None:
    places, callers = installation
    protected = [name for name in OPERATIONS if "If-Match" in PARAMETERS[name]]
    answers = {name: _call(name, _allowed(name, callers), places, if_match='"999"').status for name in protected}
    assert set(answers.values()) == {412}, answers


def test_own_work_without_a_role(installation: Installation, db: None) -> None:
    """A person keeps own work and requests after the loss of the role; a token with fewer roles does not."""
    places, callers = installation
    request = f"/api/configs/approval/{places['approval']}"
    shown = {who: callers[who].get(request)["may_withdraw"] for who in ("ann", "ann_leads", "ann_reads")}
    assert shown == {"ann": True, "ann_leads": True, "ann_reads": False}
    refused = callers["ann_far"]("POST", "/api/workflow/work-1/cancel")
    assert "this needs osmo-team-user or osmo-team-admin" in refused.body["message"]
    world.apply_change(RevokeRole(username="ann", role_name="osmo-team-admin"))
    for address in ("/api/workflow/work-1/cancel", f"{request}/withdraw"):
        assert callers["ann_leads"]("POST", address).status == 403, address
        assert callers["ann"]("POST", address).status == 200, address
