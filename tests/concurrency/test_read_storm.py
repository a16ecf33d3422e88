"""Reads during a storm: eight writers change everything while every address is read. No answer is an error, and no part
of an answer contradicts another part."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.db.models.functions import Now

from pools.domain.changes.approvals import Approve, Reject
from pools.domain.changes.backends import PutBackend
from pools.domain.changes.cohorts import PutCohort
from pools.domain.changes.gpu_allocations import AllocateWorker, ReleaseWorker
from pools.domain.changes.notices import SendTest
from pools.domain.changes.pools import PatchPool
from pools.domain.changes.subpools import CreateSubpool, DeleteSubpool, ResizeSubpool
from pools.domain.changes.users import DeleteUser, GrantRole
from pools.domain.errors import DomainError
from pools.domain.people.notices import NoticeStatus
from pools.domain.people.roles import SYSTEM
from pools.models import Backend, GpuAllocation, Notice, NoticeTarget, Pool, User
from pools.services.changes.approval_check import approved
from pools.services.gpu_quota.gpu_allocations import allocate
from scheduling.domain.changes.workflows import CancelWorkflow, EndStatus, EndWorkflow
from scheduling.domain.priorities import Priority
from scheduling.domain.statuses import WorkflowStatus
from scheduling.models import Workflow
from scheduling.services.simulated.reconcile import reconcile_backend
from tests.support import world
from tests.support.addresses import ROLES_BY_USER, AddressReader, create_example_installation, readable_addresses

pytestmark = [pytest.mark.race, pytest.mark.django_db(transaction=True)]

SUBPOOLS = ("a", "c", "d", "e", "f")
QUEUE_PAGE = "/queue/team"
LEAF = re.compile(r"^osmo-pool-ns-")
QUOTA = re.compile(r"the quota of \S+ \((\d+)\)")


class Writers:
    """Eight threads that change the installation, each in its own way, until they are stopped. With a `pause` (seconds
    after each change) they leave more of the processor to the reader."""

    def __init__(self, seed: int, pause: float = 0.0) -> None:
        self._pause = pause
        self._stop = threading.Event()
        self._rita, self._root = (User.objects.get(username=name).as_actor() for name in ("rita", "root"))
        self._backend = Backend.objects.get(name="sim").pk
        self.changes = 0
        self.faults: list[Exception] = []
        kinds = (
            self._divide, self._ask, self._submit, self._cancel, self._run, self._take_gpus, self._configure,
            self._change_users,
        )  # fmt: skip
        self._threads = [
            threading.Thread(target=self._repeat, args=[kind, random.Random(seed + number)])
            for number, kind in enumerate(kinds)
        ]

    @contextmanager
    def at_work(self) -> Iterator[Writers]:
        """The writers, which end with the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)

    def _repeat(self, change: Callable[[random.Random], object], rng: random.Random) -> None:
        try:
            while not self._stop.wait(self._pause):
                try:
                    change(rng)
                    self.changes += 1
                except DomainError:
                    pass  # two writers wanted the same thing
        except Exception as problem:  # noqa: BLE001  (the test reports it)
            self.faults.append(problem)
        finally:
            connections.close_all()

    def _divide(self, rng: random.Random) -> None:
        where: dict[str, Any] = {"parent": "team", "subpool_name": rng.choice(SUBPOOLS)}
        change = rng.randrange(3)
        if change == 0:
            world.apply_change(CreateSubpool(**where, quota=rng.randrange(25)))
        elif change == 1:
            world.apply_change(ResizeSubpool(**where, quota=rng.randrange(25)))
        else:
            world.apply_change(DeleteSubpool(**where, cancel_pending=rng.random() < 0.5))

    def _ask(self, rng: random.Random) -> None:
        """Approvals of large changes of `other--x`, and tests of notices, which fail or arrive."""
        quota = Pool.objects.get(name="other--x").last_quota or 0
        with suppress(AssertionError):  # the pool changed meanwhile, so that no approval is needed
            row = world.request_quota(self._root, "other", "x", quota + 40 if quota < 40 else quota - 40)
            if rng.random() < 2 / 3:
                world.apply_change(Approve(approval=row.pk))
            else:
                world.apply_change(Reject(approval=row.pk))
        target = NoticeTarget.objects.get(user__username="rita")
        if Notice.objects.filter(target=target).count() < 20:
            world.apply_change(SendTest(target=target.pk), actor=self._rita)
        ended = {"status": rng.choice([NoticeStatus.DELIVERED, NoticeStatus.DEAD]), "ended_at": Now()}
        Notice.objects.filter(target=target, status=NoticeStatus.WAITING).update(**ended)

    def _submit(self, rng: random.Random) -> None:
        leaf = rng.choice(["team", *(f"team--{name}" for name in SUBPOOLS)])
        priority = rng.choice(list(Priority))
        if Workflow.objects.filter(status=WorkflowStatus.PENDING).count() < 40:
            world.submit_workflow(self._rita, leaf, rng.randrange(1, 9), name="storm", priority=priority)

    def _cancel(self, rng: random.Random) -> None:
        names = list(Workflow.objects.active().filter(spec_name="storm").values_list("name", flat=True))
        if names:
            world.apply_change(CancelWorkflow(name=rng.choice(names)))

    def _run(self, rng: random.Random) -> None:
        reconcile_backend(self._backend)
        names = list(Workflow.objects.filter(status=WorkflowStatus.RUNNING, spec_name="storm").values_list("name"))
        if names:
            world.apply_change(EndWorkflow(name=rng.choice(names)[0], status=EndStatus.COMPLETED))

    def _take_gpus(self, rng: random.Random) -> None:
        live = GpuAllocation.objects.filter(namespace="team-a").exclude(state="released").exclude(name="w1")
        names = list(live.values_list("name", flat=True))
        if len(names) > 10:
            world.apply_change(ReleaseWorker(namespace="team-a", id=rng.choice(names)))
        amount = {"tflops": str(rng.randrange(1, 30)), "vram": "1Gi"}
        body = {"id": uuid4().hex, "workload": "storm", "request": amount, "limit": amount}
        allocate(AllocateWorker.from_json({"namespace": "team-a", **body}), actor=SYSTEM)

    def _configure(self, rng: random.Random) -> None:
        change = rng.randrange(3)
        if change == 0:
            guarantee: dict[str, Any] = {"resources": {"gpu": {"guarantee": rng.randrange(110, 140)}}}
            world.apply_change(PatchPool(name=rng.choice(["team", "other"]), patch=guarantee))
        elif change == 1:
            quotas = [{"flavor": "default", "resource": "gpu", "nominal": rng.randrange(20)}]
            world.apply_change(PutCohort(name="org", body={"quotas": quotas}))
        else:
            nodes = [{"name": f"n{number}", "gpus": 8} for number in range(1, rng.randrange(5, 9))]
            world.apply_change(PutBackend(name="sim", body={"namespace": "ns", "auto_end": False, "nodes": nodes}))

    def _change_users(self, rng: random.Random) -> None:
        username = f"guest{rng.randrange(10**9)}"
        world.make_user(username, "osmo-viewer")
        world.apply_change(GrantRole(username=username, role_name="osmo-team-user"))
        world.apply_change(DeleteUser(username=username))


class Reader(AddressReader):
    """A user who checks each answer."""

    def __init__(self, username: str) -> None:
        super().__init__(username)
        self.sees_all = "osmo-admin" in ROLES_BY_USER[username]

    def faults_of(self, address: str) -> list[str]:
        """What is wrong with the answer to a GET."""
        answer = self.get(address)
        answer.close()
        if answer.status_code >= 500 and address != "/ready":
            return [f"{address}: {answer.status_code}"]
        if answer.status_code != 200 or answer.streaming:
            return []
        return [f"{address}: {fault}" for fault in self._contradictions(address.partition("?")[0], answer)]

    def _contradictions(self, path: str, answer: Any) -> Iterator[str]:
        if path in JSON_CHECKS:
            yield from JSON_CHECKS[path](answer.json())
        elif path.startswith("/api/workflow/") and answer.headers["Content-Type"].startswith("application/json"):
            yield from check_workflow(answer.json())
        elif path == "/metrics":
            yield from check_metrics(answer.content.decode())
        elif path == QUEUE_PAGE and self.sees_all:
            yield from check_queue_page(answer.context)
        elif path == "/pools/team":
            yield from check_pool_page(answer.context["tree"])
        elif path == "/pools" and self.sees_all:
            yield from check_pools_page(answer.context)
        if path == "/api/quota_tree" and self.sees_all:
            yield from check_sums(answer.json(), "cohort")
        if path == "/api/queue" and self.sees_all and not answer.json()["more_entries"]:
            yield from check_positions(answer.json()["entries"])


def check_subpools(body: Mapping[str, Any]) -> Iterator[str]:
    """The quota of a pool is the shared part plus the ACTIVE subpools; available is quota minus used."""
    parts = [body["shared"], *body["subpools"]]
    if body["quota"] != sum(part["quota"] for part in parts):
        yield f"quota {body['quota']} is not the sum of {[part['quota'] for part in parts]}"
    if body["unallocated"] != body["shared"]["quota"]:
        yield "unallocated is not the quota of the shared queue"
    yield from (f"{part}" for part in parts if part["available"] != part["quota"] - part["used"])
    for part in body["subpools"]:
        if part["subpool_state"] != "ACTIVE" and part["quota"]:
            yield f"{part['name']} is {part['subpool_state']} with quota {part['quota']}"


def check_pool_quota(body: Mapping[str, Any]) -> Iterator[str]:
    """The totals are the sums of the pools; free is limit minus used."""
    rows = [pool for nodes in body["node_sets"] for pool in nodes["pools"]]
    for key in ("quota_used", "quota_free", "quota_limit", "total_usage"):
        parts = [int(row["resource_usage"][key]) for row in rows]
        if int(body["resource_sum"][key]) != sum(parts):
            yield f"{key}: {body['resource_sum'][key]} is not the sum of {parts}"
    for row in rows:
        usage = {key: int(value) for key, value in row["resource_usage"].items()}
        if usage["quota_free"] != usage["quota_limit"] - usage["quota_used"]:
            yield f"{row['name']}: {usage}"


def check_quota_tree(body: Mapping[str, Any]) -> Iterator[str]:
    """Every parent is in the answer, the balance of a node is its quota minus its usage, and the numbers of a pool are
    the sums of its leaves."""
    yield from check_sums(body, "pool")
    names = {node["name"] for node in body["nodes"]}
    for node in body["nodes"]:
        if node["parent"] is not None and node["parent"] not in names:
            yield f"{node['name']} has the parent {node['parent']}, which is not there"
        for quota in node["quotas"]:
            numbers = quota["t"], quota["subtree_quota"], quota["usage"]
            if all(isinstance(number, int) for number in numbers) and numbers[0] != numbers[1] - numbers[2]:
                yield f"{node['name']}: {quota}"


def check_sums(body: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Quota, usage and waiting GPUs of a node are its own nominal quota and the sums of its children; nothing here has
    a lending limit. A reader who may not see all pools of a cohort sees only a part of its children."""
    children: dict[str | None, list[Mapping[str, Any]]] = {}
    for node in body["nodes"]:
        children.setdefault(node["parent"], []).append(gpus_of(node))
    for node in body["nodes"]:
        own, below = gpus_of(node), children.get(node["name"])
        if node["kind"] == kind and below:
            for key, nominal in (("subtree_quota", own["nominal"]), ("usage", 0), ("pending", 0)):
                parts = [part[key] for part in below]
                if own[key] != nominal + sum(parts):
                    yield f"{node['name']}: {key} {own[key]} is not {nominal} and the sum of {parts}"


def gpus_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of GPUs of a node of the quota tree."""
    found: list[dict[str, Any]] = [each for each in node["quotas"] if each["resource"] == "gpu"]
    return found[0]


def check_queue_page(context: Mapping[str, Any]) -> Iterator[str]:
    """Waiting GPUs of a leaf are those of its waiting gangs, and the numbers of each reason are those of the quotas
    above the list."""
    rows = {row.node.name: row for row in context["tree"]}
    waiting: dict[str, int] = {}
    in_use: dict[str, set[int]] = {}
    for gang in context["window"].rows:
        leaf = LEAF.sub("", gang.queue)
        if leaf not in rows:
            yield f"{gang.workflow} waits in {leaf}, which is not in {sorted(rows)}"
            continue
        waiting[leaf] = waiting.get(leaf, 0) + gang.gpus
        yield from (f"{gang.workflow}: {fault}" for fault in _reason_faults(gang, rows, leaf, in_use))
    for name, row in rows.items():
        if not row.has_children and not context["window"].next and row.pending != waiting.get(name, 0):
            yield f"{name}: {row.pending} GPUs wait, and its gangs ask for {waiting.get(name, 0)}"
    yield from (f"{name}: guaranteed GPUs in use {found}" for name, found in in_use.items() if len(found) > 1)


def _reason_faults(gang: Any, rows: Mapping[str, Any], leaf: str, in_use: dict[str, set[int]]) -> Iterator[str]:
    """`in_use` collects the guaranteed GPUs in use that follow from the numbers of each quota reason, by node."""
    reason, numbers = gang.reason, rows[leaf].numbers
    if reason.code == "over_quota":
        node = LEAF.sub("", reason.queue)
        found = QUOTA.search(reason.message)
        quota = rows[node].numbers.subtree_quota
        if found is None or int(found[1]) != quota:
            yield f"{reason.message!r}, and the quota of {node} is {quota}"
        used = quota + reason.missing - reason.requested
        in_use.setdefault(node, set()).add(used)
        if not 0 <= used <= rows[node].numbers.usage or reason.free != max(0, quota - used):
            yield f"{reason}, and {node} has {rows[node].numbers}"
    elif reason.code in {"no_room", "fragmented"}:
        if reason.requested > numbers.available:
            yield f"{reason}, and the tree has only {numbers.available} for {leaf}"
        if gang.priority != "LOW" and reason.requested > numbers.subtree_quota:
            yield f"{reason}, and the quota of {leaf} is {numbers.subtree_quota}"
    elif (
        reason.code in {"nothing_to_borrow", "not_lent", "over_borrowing_limit"}
        and reason.requested <= numbers.available
    ):
        yield f"{reason}, and the tree has {numbers.available} for {leaf}"


def check_positions(entries: list[Mapping[str, Any]]) -> Iterator[str]:
    """The positions are 1 to n."""
    positions = [entry["position"] for entry in entries]
    if positions != list(range(1, len(positions) + 1)):
        yield f"positions {positions}"


def check_queue(body: Mapping[str, Any]) -> Iterator[str]:
    """No gang waits twice, and a reason misses what it requests beyond the free amount."""
    names = [(entry["workflow"], entry["group"]) for entry in body["entries"]]
    if len(names) != len(set(names)):
        yield f"twice in the queue: {names}"
    for entry in body["entries"]:
        reason = entry["reason"]
        if (
            reason["missing"]
            and reason["free"] is not None
            and reason["missing"] != reason["requested"] - reason["free"]
        ):
            yield f"{entry['workflow']}: {reason}"


def check_workflow(body: Mapping[str, Any]) -> Iterator[str]:
    """A workflow runs while one of its groups runs, and has ended when all have."""
    groups = {group["status"] for group in body["groups"]}
    if ("RUNNING" in groups) != (body["status"] == "RUNNING"):
        yield f"{body['name']} is {body['status']}, its groups are {groups}"
    for group in body["groups"]:
        tasks = {task["status"] for task in group["tasks"]}
        if group["status"] == "RUNNING" and not tasks & {"RUNNING", "INITIALIZING"}:
            yield f"{group['name']} is RUNNING, its tasks are {tasks}"


def check_gpu_quota(body: Mapping[str, Any]) -> Iterator[str]:
    """The available percentage belongs to the amounts in use."""
    used, percent = body["status"]["used"], body["status"]["availablePercent"]
    free = 100 - float(used["requests"]["tflops"].replace("k", "000")) / 10
    if abs(float(percent["requests.tflops"]) - free) > 0.01:
        yield f"used {used}, available {percent}"


def check_approvals(body: Mapping[str, Any]) -> Iterator[str]:
    """One request of an object waits, and a decided one has its person and its time."""
    rows = body["approvals"]
    waiting = [row["subject"] for row in rows if row["state"] == "waiting"]
    if len(waiting) != len(set(waiting)):
        yield f"two requests wait for one object: {waiting}"
    for row in rows:
        is_decided = row["state"] in {"approved", "rejected"}
        if is_decided != (row["decided_by"] is not None) or is_decided != (row["decided_at"] is not None):
            yield f"request {row['id']} is {row['state']}, by {row['decided_by']} at {row['decided_at']}"


def check_drains(body: Mapping[str, Any]) -> Iterator[str]:
    """The end of a drain is known exactly if all its work runs with time limits, and GPUs are in use by work only."""
    for row in body["drains"]:
        open_end = row["waiting_workflows"] + row["unlimited_workflows"]
        if open_end > row["live_workflows"] or (row["gpus"] and row["waiting_workflows"] == row["live_workflows"]):
            yield f"{row}"
        if open_end and row["ends_by"] is not None:
            yield f"{row['subpool']} ends by {row['ends_by']}, and {open_end} workflows have no limit yet"


def check_notices(body: Mapping[str, Any]) -> Iterator[str]:
    """A notice has an end exactly if nothing more is tried."""
    for row in body["notices"]:
        if (row["status"] == "waiting") != (row["ended_at"] is None):
            yield f"{row['id']} is {row['status']}, ended at {row['ended_at']}"


def check_overview(body: Mapping[str, Any]) -> Iterator[str]:
    """The waiting gangs and GPUs are the sums of the pools, and idle is quota minus used."""
    for total, key in (("waiting_gangs", "gangs"), ("waiting_gpus", "gpus")):
        if body[total] != sum(row[key] for row in body["waiting"]):
            yield f"{total} {body[total]}, and the pools have {body['waiting']}"
    yield from (f"{row}" for row in body["idle"] if row["idle"] != row["quota"] - row["used"])


def check_events(body: Mapping[str, Any]) -> Iterator[str]:
    """Each event once, the newest first."""
    ids = [row["id"] for row in body["events"]]
    if ids != sorted(set(ids), reverse=True):
        yield f"events {ids}"


def check_metrics(page: str) -> Iterator[str]:
    """The quota of a pool is the sum over its leaves."""
    leaves: dict[str, float] = {}
    for pool, value in re.findall(r'^osmo_leaf_quota_gpus\{leaf="[^"]*",pool="([^"]+)"\} (\S+)', page, re.MULTILINE):
        leaves[pool] = leaves.get(pool, 0) + float(value)
    pools = dict(re.findall(r'^osmo_pool_guarantee_gpus\{pool="([^"]+)"\} (\S+)', page, re.MULTILINE))
    if not pools:
        yield "no pools"
    for pool, value in pools.items():
        if float(value) != leaves[pool]:
            yield f"{pool}: guarantee {value}, leaves {leaves[pool]}"


def check_pool_page(tree: Any) -> Iterator[str]:
    """The sums of a pool are those of its rows."""
    for key in ("quota", "used", "total_usage", "live_workflows"):
        total, parts = getattr(tree.head, key), [getattr(row, key) for row in tree.leaves]
        if total != sum(parts):
            yield f"{key}: {total} is not the sum of {parts}"


def check_pools_page(context: Mapping[str, Any]) -> Iterator[str]:
    """The totals above the list are the sums of the pools in it."""
    trees = context["pool_page"].trees
    for tree in trees:
        yield from check_pool_page(tree)
    totals = context["totals"]
    sums = {
        "quota": totals.quota,
        "total_usage": totals.used,
    }
    for key, total in sums.items():
        parts = [getattr(tree.head, key) for tree in trees]
        if total != sum(parts):
            yield f"{key}: {total} is not the sum of {parts}"


JSON_CHECKS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "/api/configs/pool/team/subpool": check_subpools,
    "/api/pool_quota": check_pool_quota,
    "/api/quota_tree": check_quota_tree,
    "/api/queue": check_queue,
    "/api/configs/gpu_quota/team-a": check_gpu_quota,
    "/api/configs/approval": check_approvals,
    "/api/drains": check_drains,
    "/api/notices": check_notices,
    "/api/overview": check_overview,
    "/api/scheduler_events": check_events,
}
CHECKED = (
    *JSON_CHECKS, "/metrics", "/pools", "/pools/team", QUEUE_PAGE, "/api/workflow/running-1",
)  # fmt: skip


def _read_everything(rounds: int, *, share: int = 1, every_user: bool = True, pause: float = 0.0) -> list[str]:
    """The faults of all answers. With a `share` above 1 a round reads only each address of that number."""
    create_example_installation()
    with approved():
        world.apply_change(PatchPool(name="other", patch={"approval_above": 35}))
    readers = [Reader(name) for name in ROLES_BY_USER]
    addresses = readable_addresses()
    assert not [fault for address in CHECKED for fault in readers[0].faults_of(address)], "not even at rest"
    found: list[str] = []
    with Writers(7, pause).at_work() as writers:
        for number in range(rounds):
            for place, address in enumerate(addresses[::share]):
                for reader in readers if every_user else [readers[(place + number) % len(readers)]]:
                    found += reader.faults_of(address)
            for address in CHECKED:
                found += readers[0].faults_of(address)
    assert not writers.faults
    assert writers.changes > 20
    return found


def test_a_part_of_the_addresses_during_a_storm() -> None:
    assert _read_everything(1, share=10, every_user=False, pause=0.1) == []


@pytest.mark.nightly
def test_every_address_for_every_user_during_a_long_storm() -> None:
    assert _read_everything(30) == []


@pytest.mark.nightly
def test_the_storm_finds_reads_without_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmo_admin.web.middleware.one_snapshot", nullcontext)
    create_example_installation()
    reader = Reader("root")
    with Writers(7).at_work():
        assert any(reader.faults_of(address) for _ in range(200) for address in CHECKED)


def test_numbers_of_another_state_are_noticed() -> None:
    """In the page of the queue, where work of `team--a` waits for its quota and for nodes, and in the quota tree."""
    create_example_installation()
    rita = User.objects.get(username="rita").as_actor()
    for _ in range(4):
        world.submit_workflow(rita, "team--a", 8, name="low", priority=Priority.LOW)
    world.reconcile()
    root = Reader("root")
    page, body = root.get(QUEUE_PAGE).context, root.get("/api/quota_tree").json()
    assert {gang.reason.code for gang in page["window"].rows} == {"over_quota", "no_room"}

    def faults_with(**changes: int) -> list[str]:
        """The faults of the page with these numbers of `team--a`."""
        tree = []
        for row in page["tree"]:
            numbers = {key: value for key, value in changes.items() if key != "pending"}
            changed = replace(row, numbers=replace(row.numbers, **numbers), pending=changes.get("pending", row.pending))
            tree.append(changed if row.node.name == "team--a" else row)
        return list(check_queue_page({"tree": tree, "window": page["window"]}))

    assert faults_with() == []
    for changes in ({"pending": 1}, {"subtree_quota": 9}, {"usage": 0}, {"available": 7}):
        assert faults_with(**changes), changes

    assert list(check_quota_tree(body)) == []
    team = next(gpus_of(node) for node in body["nodes"] if node["name"] == "team")
    for key in ("subtree_quota", "usage", "pending"):
        team[key] += 1
        assert list(check_sums(body, "pool")), key
        assert list(check_sums(body, "cohort")), key
        team[key] -= 1
