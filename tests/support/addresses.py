"""Every address of the URL configuration that can be read, with example parameters for a small installation.

An address without parameters is included as soon as it exists. One with parameters needs an entry in `EXAMPLES`; a test
that walks the addresses fails without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from osmo_admin.web.middleware import READS_WITHOUT_SNAPSHOT
from pools.database.transactions import database_time
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker
from pools.domain.changes.gpu_quotas import PutGpuQuota
from pools.domain.changes.notices import CreateTarget, SendTest
from pools.domain.changes.pools import PatchPool, PutPool
from pools.domain.changes.saved_views import SaveView
from pools.domain.changes.subpools import DeleteSubpool
from pools.domain.changes.tokens import CreateToken
from pools.domain.people.roles import SYSTEM
from pools.domain.people.saved_views import FilteredList
from pools.models import AccessToken, ApprovalRequest, AuditEntry, Backend, NoticeTarget, User
from pools.security.tokens import issue_jwt
from pools.services.changes.approval_check import approved
from pools.services.gpu_quota.gpu_allocations import allocate
from scheduling.domain.changes.workflows import EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.history.own.own_replay import ReplayQuestion
from scheduling.history.own.replays import request_replay, run_replay
from scheduling.models import HistoryReplay
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world

ROLES_BY_USER = {"root": ["osmo-admin"], "chief": ["osmo-team-admin"], "rita": ["osmo-team-user"]}
IMPORTED = "pools: {fresh: {backend: sim, resources: {gpu: {guarantee: 1}}}}"
CHANGE_ONLY = (
    "api/auth/jwt/access_token",
    "api/auth/client_login",
    "api/auth/client_login/password",
    "api/auth/client_login/token",
    "api/auth/access_token/<str:name>",
    "api/auth/user/<str:user>/roles",
    "api/auth/user/<str:user>/roles/<str:role>",
    "api/auth/user/<str:user>/access_token/<str:name>",
    "api/auth/user/<str:user>/identity/<str:provider>",
    "api/profile/views/<str:page>/<str:name>",
    "api/configs/pool/<str:name>/rename",
    "api/configs/pool/<str:name>/platform/<str:platform>/rename",
    "api/gpu_quota/<str:namespace>/allocation/<str:name>/commit",
    "api/configs/approval/<int:approval>/approve",
    "api/configs/approval/<int:approval>/reject",
    "api/configs/approval/<int:approval>/withdraw",
    "api/configs/history/rollback",
    "api/notices/inbox/read",
    "api/notices/inbox/<int:news>/read",
    "api/notices/target/<int:target>/test",
    "api/notices/target/<int:target>/secret",
    "api/notices/target/<int:target>/replay",
    "api/notices/<str:notice>/replay",
    "api/configs/history/<str:config_type>/revision/<int:revision>",
    "api/configs/history/<str:config_type>/revision/<int:revision>/tags",
    "api/gpu_quota/rebuild",
    "api/pool/<str:pool>/workflow",
    "api/pool/<str:pool>/workflows",
    "api/pool/<str:pool>/workflow/<str:workflow>/restart",
    "api/workflow/<str:name>/cancel",
    "api/workflow/<str:name>/end",
    "api/workflow/<str:name>/tag",
    "api/replay/<uuid:replay>/cancel",
    "api/simulate",
    "api/podgroup/validate",
    "api/podgroup/plan",
    "api/backend/<str:backend>/settle",
    "api/backend/<str:backend>/nodes/<str:node>/drain",
    "api/backend/<str:backend>/nodes/<str:node>/restore",
    "api/backend/<str:backend>/nodes/<str:node>/clear",
    "api/backend/<str:backend>/test",
    "logout/",
    "sign-on/<str:name>/logout/",
)
"""Addresses that refuse a GET with 405."""

REPLAY = "0c6b7a0e-0000-4000-8000-000000000001"
"""The replay of the platform admin."""

EXAMPLES: Mapping[str, Sequence[str]] = {
    "api/auth/user": ["/api/auth/user", "/api/auth/user?roles=osmo-admin"],
    "api/auth/user/<str:user>": ["/api/auth/user/rita"],
    "api/auth/user/<str:user>/identity": ["/api/auth/user/rita/identity"],
    "api/auth/user/<str:user>/access_token": ["/api/auth/user/rita/access_token"],
    "api/auth/user/<str:user>/access_token/<str:name>/roles": ["/api/auth/user/rita/access_token/mine/roles"],
    "api/auth/access_token/<str:name>/roles": ["/api/auth/access_token/mine/roles"],
    "api/profile/views": ["/api/profile/views", "/api/profile/views?list=pools"],
    "api/audit": ["/api/audit", "/api/audit?object=pool/team"],
    "api/pool": ["/api/pool", "/api/pool?pools=team&all_pools=False"],
    "api/configs/pool": ["/api/configs/pool", "/api/configs/pool?verbose=True"],
    "api/configs/approval": ["/api/configs/approval", "/api/configs/approval?state=waiting"],
    "api/configs/approval/<int:approval>": ["/api/configs/approval/CHIEFS_REQUEST"],
    "api/configs/pool/<str:name>": ["/api/configs/pool/team", "/api/configs/pool/team--a"],
    "api/configs/pool/<str:name>/platform": ["/api/configs/pool/team/platform"],
    "api/configs/pool/<str:name>/platform/<str:platform>": ["/api/configs/pool/team/platform/default"],
    "api/configs/pool/<str:parent>/subpool": [
        "/api/configs/pool/team/subpool",
        "/api/configs/pool/team/subpool?include_archived=True",
        "/api/configs/pool/team/subpool?start_room=true",
    ],
    "api/configs/pool/<str:parent>/subpool/<str:subpool>": ["/api/configs/pool/team/subpool/a"],
    "api/configs/subpool_quotas": ["/api/configs/subpool_quotas", "/api/configs/subpool_quotas?pool=team"],
    "api/configs/backend/<str:name>": ["/api/configs/backend/sim"],
    "api/configs/gpu_quota/<str:namespace>": ["/api/configs/gpu_quota/team-a"],
    "api/gpu_quota/<str:namespace>/allocation": ["/api/gpu_quota/team-a/allocation"],
    "api/gpu_quota/<str:namespace>/allocation/<str:name>": ["/api/gpu_quota/team-a/allocation/w1"],
    "api/gpu_quota/<str:namespace>/room": ["/api/gpu_quota/team-a/room"],
    "api/gpu_quota/<str:namespace>/history": ["/api/gpu_quota/team-a/history"],
    "api/configs/cohort/<str:name>": ["/api/configs/cohort/org"],
    "api/quota_tree": ["/api/quota_tree", "/api/quota_tree?root=org"],
    "api/configs/history": ["/api/configs/history", "/api/configs/history?omit_data=False&limit=3"],
    "api/configs/diff": ["/api/configs/diff?config_type=POOL&first_revision=1&second_revision=2"],
    "api/notices": ["/api/notices", "/api/notices?status=dead"],
    "api/notices/target/<int:target>": ["/api/notices/target/RITAS_TARGET"],
    "api/pool_quota": ["/api/pool_quota", "/api/pool_quota?pools=team&all_pools=False"],
    "api/resources/<str:name>": ["/api/resources/n1"],
    "api/workflow": ["/api/workflow", "/api/workflow?all_users=True&limit=1000"],
    "api/workflow/<str:name>": ["/api/workflow/waiting-1", "/api/workflow/running-1?verbose=True"],
    "api/workflow/<str:name>/compare/<str:other>": ["/api/workflow/waiting-1/compare/running-1"],
    "api/workflow/<str:name>/spec": ["/api/workflow/waiting-1/spec"],
    "api/workflow/<str:name>/logs": ["/api/workflow/running-1/logs"],
    "api/workflow/<str:name>/error_logs": ["/api/workflow/failed-1/error_logs"],
    "api/workflow/<str:name>/events": ["/api/workflow/running-1/events"],
    "api/task": ["/api/task", "/api/task?all_users=True&summary=True"],
    "api/scheduler_events": ["/api/scheduler_events", "/api/scheduler_events?pool=team&action=start&limit=5"],
    "api/queue": ["/api/queue", "/api/queue?pool=team&limit=1000"],
    "api/workflow/<str:name>/receipts": ["/api/workflow/running-1/receipts"],
    "api/backend/<str:backend>/nodes": ["/api/backend/sim/nodes", "/api/backend/sim/nodes?name=n1&free=1"],
    "api/backend/<str:backend>/losses": ["/api/backend/sim/losses"],
    "api/backend/<str:backend>/promises": ["/api/backend/sim/promises"],
    "api/backend/<str:backend>/differences": ["/api/backend/prod/differences?kind=started&pool=team&limit=5"],
    "api/backend/<str:backend>/sync": ["/api/backend/prod/sync"],
    "api/configs/backend/<str:backend>/webhook": ["/api/configs/backend/prod/webhook"],
    "api/backend/<str:backend>/bypasses": ["/api/backend/prod/bypasses"],
    "api/configs/<path:kind>": ["/api/configs/service"],
    "api/docs/<slug:name>": ["/api/docs/get_audit"],
    "^(?:api|webhooks)/": ["/api/nothing", "/webhooks/pod"],
    "webhooks/pod/<str:backend>": ["/webhooks/pod/prod"],
    "webhooks/gpu_quota/<str:backend>": ["/webhooks/gpu_quota/prod"],
    "webhooks/gpu_quota/<str:backend>/<str:mark>": ["/webhooks/gpu_quota/prod/guessed"],
    "webhooks/pod/<str:backend>/<str:mark>": ["/webhooks/pod/prod/guessed"],
    "webhooks/podgroup/<str:backend>/<str:mark>": ["/webhooks/podgroup/prod/guessed"],
    "webhooks/podgroup/<str:backend>": ["/webhooks/podgroup/prod"],
    "activity/approvals/<str:object_id>": ["/activity/approvals/CHIEFS_REQUEST"],
    **{
        f"activity/approvals/<int:approval>/{page}": [f"/activity/approvals/CHIEFS_REQUEST/{page}"]
        for page in ("approve", "approve/-/preview", "reject", "withdraw")
    },
    "activity/audit/<str:object_id>": ["/activity/audit/NEWEST_ENTRY"],
    "clusters/<str:backend>/losses": ["/clusters/sim/losses"],
    "clusters/<str:name>/configuration": ["/clusters/sim/configuration"],
    "clusters/<str:name>/configuration/-/preview": [
        "/clusters/sim/configuration/-/preview?namespace=ns&about=new&offline=on"
    ],
    "clusters/-/create/-/preview": ["/clusters/-/create/-/preview?name=fresh&namespace=fresh&nodes=n1+8"],
    "clusters/-/connect/-/preview": [
        "/clusters/-/connect/-/preview?name=fresh&namespace=fresh&access=in_cluster&sync_mode=off"
    ],
    "clusters/<str:object_id>": ["/clusters/sim", "/clusters/prod"],
    "cohorts/<str:name>/configuration": ["/cohorts/org/configuration"],
    "cohorts/<str:name>/delete": ["/cohorts/org/delete"],
    "pools/<pool:kind><str:name>/quota": ["/pools/team/quota"],
    "cohorts/<cohort:kind><str:name>": ["/cohorts/org"],
    "gpu-quotas/<str:namespace>/configuration": ["/gpu-quotas/team-a/configuration"],
    "gpu-quotas/<str:namespace>/delete": ["/gpu-quotas/team-a/delete"],
    "import/-/preview": [f"/import/-/preview?kind=osmo&text={IMPORTED}"],
    "import/-/report": [f"/import/-/report?kind=osmo&text={IMPORTED}"],
    "import/-/files": [f"/import/-/files?kind=osmo&text={IMPORTED}"],
    "gpu-quotas/-/create/-/preview": ["/gpu-quotas/-/create/-/preview?namespace=fresh&max_workers=3"],
    "gpu-quotas/<str:namespace>/configuration/-/preview": [
        "/gpu-quotas/team-a/configuration/-/preview?requests_tflops=5"
    ],
    "gpu-quotas/<str:namespace>/delete/-/preview": ["/gpu-quotas/team-a/delete/-/preview"],
    "gpu-quotas/<str:namespace>/release/<str:worker>": ["/gpu-quotas/team-a/release/w1"],
    "gpu-quotas/<str:object_id>": ["/gpu-quotas/team-a"],
    "nodes/<str:backend>/<str:name>": ["/nodes/sim/n1"],
    "nodes/<str:object_id>": ["/nodes/n1"],
    "pools/<str:pool>/configuration": ["/pools/team/configuration"],
    "pools/-/create/-/preview": ["/pools/-/create/-/preview?name=fresh&backend=sim&guarantee=1&maximum=-1&weight=1"],
    "pools/<str:pool>/configuration/-/preview": [
        "/pools/team/configuration/-/preview?guarantee=90&maximum=-1&weight=1&cohort=org"
    ],
    "pools/<str:pool>/subpools/create/-/preview": ["/pools/team/subpools/create/-/preview?subpool_name=fresh&quota=1"],
    "pools/<str:pool>/subpools/<str:subpool>/resize/-/preview": ["/pools/team/subpools/a/resize/-/preview?quota=9"],
    "pools/<str:pool>/subpools/<str:subpool>/delete/-/preview": ["/pools/team/subpools/a/delete/-/preview"],
    "pools/<str:pool>/subpools/<str:subpool>/recreate/-/preview": [
        "/pools/team/subpools/gone/recreate/-/preview?quota=2"
    ],
    "cohorts/-/create/-/preview": ["/cohorts/-/create/-/preview?name=fresh&nominal=1&weight=1"],
    "cohorts/<str:name>/configuration/-/preview": ["/cohorts/org/configuration/-/preview?nominal=5&weight=1"],
    "cohorts/<str:name>/delete/-/preview": ["/cohorts/org/delete/-/preview?orphan=on"],
    "pools/-/quotas/-/preview": ["/pools/-/quotas/-/preview?quotas=pool,subpool,quota%0Ateam,a,9"],
    "pools/<str:pool>/quotas": ["/pools/team/quotas"],
    "pools/<str:pool>/quotas/-/preview": ["/pools/team/quotas/-/preview?quota-a=9"],
    "users/-/create/-/preview": ["/users/-/create/-/preview?username=fresh&roles=osmo-viewer"],
    "pools/<str:pool>/archive": ["/pools/team/archive"],
    "pools/<str:pool>/archive/-/preview": ["/pools/spare/archive/-/preview"],
    "pools/<str:pool>/subpools/create": ["/pools/team/subpools/create"],
    "pools/<str:pool>/subpools/<str:subpool>/resize": ["/pools/team/subpools/a/resize"],
    "pools/<str:pool>/subpools/<str:subpool>/delete": ["/pools/team/subpools/a/delete"],
    "pools/<str:pool>/subpools/<str:subpool>/recreate": ["/pools/team/subpools/gone/recreate"],
    "pools/<str:pool>/subpools/<str:subpool>/deadline": ["/pools/team/subpools/b/deadline"],
    "pools/<str:pool>/subpools/<str:subpool>/deadline/-/preview": ["/pools/team/subpools/b/deadline/-/preview"],
    "pools/<str:object_id>": ["/pools/team"],
    "tokens/<str:name>/revoke": ["/tokens/mine/revoke"],
    "views/-/save/<str:page>": ["/views/-/save/workflows?pool=team"],
    "views/-/delete/<str:page>/<str:name>": ["/views/-/delete/workflows/saved"],
    "inbox/<int:news>/read": ["/inbox/1/read"],
    "notices/-/replay/<str:notice>": ["/notices/-/replay/msg_1"],
    **{
        f"notices/<int:target>/{page}": [f"/notices/RITAS_TARGET/{page}"]
        for page in ("edit", "delete", "test", "secret", "replay")
    },
    "users/<str:username>/roles": ["/users/rita/roles"],
    "users/<str:username>/roles/-/preview": ["/users/rita/roles/-/preview?roles=osmo-viewer"],
    "users/<str:username>/password": ["/users/rita/password"],
    "users/<str:username>/close": ["/users/rita/close"],
    "users/<str:username>/unlink/<str:provider>": ["/users/rita/unlink/corp"],
    "sign-on/<str:name>/": ["/sign-on/none/"],
    "sign-on/<str:name>/link/": ["/sign-on/none/link/"],
    "sign-on/<str:name>/callback/": ["/sign-on/none/callback/"],
    "users/<str:object_id>": ["/users/rita"],
    "clusters/<str:object_id>/webhooks": ["/clusters/prod/webhooks"],
    "clusters/<str:object_id>/differences": ["/clusters/prod/differences"],
    "jobs": ["/jobs"],
    "clusters/<str:object_id>/sync": ["/clusters/prod/sync"],
    "activity": ["/activity"],
    "api/replay/<uuid:replay>": [f"/api/replay/{REPLAY}"],
    "replay/<str:object_id>/cancel": [f"/replay/{REPLAY}/cancel"],
    "replay/<str:object_id>": [f"/replay/{REPLAY}"],
    "usage": ["/usage"],
    "settings/-/preview": ["/settings/-/preview?minutes=7&retries=3"],
    "settings": ["/settings"],
    "queue": ["/queue"],
    "queue/<str:pool>": ["/queue/team"],
    "workflows/-/cancel": ["/workflows/-/cancel?name=waiting-1"],
    "workflows/-/retry": ["/workflows/-/retry?name=waiting-1"],
    "workflows/<str:name>/end": ["/workflows/running-1/end"],
    "workflows/<str:object_id>": [
        "/workflows/waiting-1",
        "/workflows/running-1",
    ],
    "^(?:pools|scheduling|django_celery_beat)/.*$": ["/pools/pool/team/change/"],
}
"""The addresses to call for a pattern of the URL configuration; without an entry, the pattern itself."""


def readable_addresses() -> list[str]:
    """The example of every pattern that answers a GET. Raises LookupError for a pattern without one."""
    patterns = list(_iterate_patterns(get_resolver().url_patterns))
    missing = [each for each in patterns if not _is_plain(each) and each not in EXAMPLES and each not in CHANGE_ONLY]
    if missing:
        raise LookupError(f"Give example parameters in {__name__}.EXAMPLES for: {', '.join(missing)}")
    wanted = [each for each in dict.fromkeys(patterns) if each not in CHANGE_ONLY]
    newest = str(AuditEntry.objects.latest("pk").pk)
    target = str(NoticeTarget.objects.get(user__username="rita").pk)
    found = [address for pattern in wanted for address in EXAMPLES.get(pattern, [f"/{pattern}"])]
    request = str(ApprovalRequest.objects.get(requested_by="chief").pk)
    known = {"NEWEST_ENTRY": newest, "RITAS_TARGET": target, "CHIEFS_REQUEST": request}
    return [reduce(lambda text, name: text.replace(name, known[name]), known, address) for address in found]


def _iterate_patterns(entries: Iterable[Any], prefix: str = "") -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, URLPattern):
            yield f"{prefix}{entry.pattern}"
        elif isinstance(entry, URLResolver):
            yield from _iterate_patterns(entry.url_patterns, f"{prefix}{entry.pattern}")


def _is_plain(pattern: str) -> bool:
    return not set(pattern) & set("<^$(*")


def create_example_installation() -> None:
    """The objects that the examples name: pool `team` in cohort `org` with subpools `a`, `b` (drains) and `gone`
    (archived), pool `spare` without subpools, namespace `team-a`, backend `sim` with nodes and `prod` without a
    cluster, users, tokens, and work in every state."""
    nodes = [{"name": f"n{number}", "gpus": 8} for number in range(1, 5)]
    world.apply_change(PutBackend(name="sim", body={"namespace": "ns", "auto_end": False, "nodes": nodes}))
    Backend.objects.create(name="prod", kind=Backend.Kind.KUBERNETES, namespace="prod-ns")
    quotas = [{"flavor": "default", "resource": "gpu", "nominal": 4}]
    world.apply_change(PutCohort(name="org", body={"quotas": quotas}))
    gpu = {"guarantee": 100, "maximum": -1, "weight": 1}
    for name in ("team", "other"):
        world.apply_change(PutPool(name=name, body={"backend": "sim", "resources": {"gpu": gpu}, "cohort": "org"}))
    world.apply_change(PutPool(name="spare", body={"backend": "sim", "resources": {"gpu": {"guarantee": 0}}}))
    for name, quota in (("a", 8), ("b", 8), ("gone", 8), ("c", 8)):
        world.make_subpool("team", name, quota)
    world.make_subpool("other", "x", 10)
    for username, roles in ROLES_BY_USER.items():
        actor = world.make_user(username, *roles)
        world.apply_change(CreateToken(owner=username, name="mine"))
        world.apply_change(SaveView(page=FilteredList.WORKFLOWS, name="saved", query="status=FAILED"), actor=actor)
    caps = {"requests": {"tflops": "1000", "vram": "100Gi"}, "limits": {"tflops": "1000", "vram": "100Gi"}}
    world.apply_change(PutGpuQuota(namespace="team-a", spec={"total": {**caps, "maxWorkers": 50}}))
    amount = {"tflops": "10", "vram": "1Gi"}
    worker = {"namespace": "team-a", "id": "w1", "workload": "infer", "request": amount, "limit": amount}
    allocate(AllocateWorker.from_json(worker), actor=SYSTEM)
    rita = User.objects.get(username="rita").as_actor()
    hook = world.apply_change(
        CreateTarget(name="ci", channel="webhook", address="https://ci.example.com/hook"), actor=rita
    )[0]
    world.apply_change(SendTest(target=hook.pk), actor=rita)
    backend = Backend.objects.get(name="sim")
    for name, leaf, gpus in (("running", "team--a", 4), ("drained", "team--b", 2), ("failed", "team", 2)):
        world.submit_workflow(rita, leaf, gpus, name=name)
    reconcile_backend(backend.pk)
    world.apply_change(EndWorkflow(name="failed-1", status=EndStatus.FAILED))
    for name, priority in (("waiting", Priority.NORMAL), ("lower", Priority.LOW)):
        world.submit_workflow(rita, "team--a", 8, name=name, priority=priority)
    reconcile_backend(backend.pk)
    now, change = database_time(), {"set": {"name": "team--a", "quota": 9}}
    question = ReplayQuestion(now - timedelta(hours=1), now, [change], "sim")
    replay = request_replay(actor=User.objects.get(username="root").as_actor(), question=question)
    run_replay(replay.pk)
    HistoryReplay.objects.update(id=REPLAY)
    for name in ("b", "gone"):
        world.apply_change(DeleteSubpool(parent="team", subpool_name=name))
    world.apply_change(PatchPool(name="team", patch={"approval_above": 60}))
    world.request_quota(User.objects.get(username="chief").as_actor(), "team", "c", 80)
    with approved():  # the previews of deletions are examples, too
        world.apply_change(PatchPool(name="team", patch={"approval_above": None}))


class AddressReader:
    """A user with an access token called `mine` for the API and with a browser for pages; an error of ours is an
    answer of 500."""

    def __init__(self, username: str) -> None:
        self._browser = world.sign_in(username, raise_request_exception=False)
        self._program = Client(raise_request_exception=False)
        token = AccessToken.objects.select_related("owner").get(owner__username=username, name="mine")
        self._login = {"Authorization": f"Bearer {issue_jwt(token)[0]}"}

    def get(self, address: str) -> Any:
        """The answer to a GET."""
        if address.startswith(("/api/", "/metrics", *READS_WITHOUT_SNAPSHOT)):
            return self._program.get(address, headers=self._login)
        return self._browser.get(address)
