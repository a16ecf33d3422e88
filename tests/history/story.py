"""A right history, written by hand: a small model of an installation that writes a record as a run does.

`tell()` returns the lines of the record. Tests of the checker change one thing in them. A tenth of a second passes with
each event, and the commit of a call is in its middle.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

WALL = 1_700_000_000.0
TENTH = 100_000
"""Microseconds that pass with each event."""

Line = dict[str, Any]


class Story:
    """The model. Rows are dictionaries as PostgreSQL's `to_jsonb` writes them."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.now = 0
        self.transaction = 700
        self._entry = 0
        self._call = 0
        self.write("header", format=1, seed=1, operations=0, faults=0, clients=2, plant=None, command=[], wall=WALL)

    # --- writing ---
    def write(self, kind: str, **content: Any) -> Line:
        self.now += 1
        line = {"n": len(self.lines) + 1, "t": self.now * TENTH * 1000, "kind": kind, **content}
        self.lines.append(line)
        return line

    def committed(self) -> int:
        return int(WALL * 1e6) + (self.now - 1) * TENTH

    def begin(self) -> None:
        """A new transaction."""
        self.now += 1
        self.transaction += 1

    def stamp(self, row: dict[str, Any]) -> dict[str, Any]:
        row.update(_xid=str(self.transaction), _committed=self.committed())
        return row

    def add(self, table: str, **row: Any) -> dict[str, Any]:
        self.tables.setdefault(table, []).append(self.stamp(row))
        return row

    def audit(self, action: str, name: str, before: Any, after: Any, *, actor: str = "ann", request: str = "") -> None:
        self._entry += 1
        hidden = {"_xid", "_committed", "version"}
        images = [
            None if row is None else {key: value for key, value in row.items() if key not in hidden}
            for row in (before, after)
        ]
        self.add(
            "pools_auditentry", id=self._entry, time="", actor=actor, action=action, object=name, before=images[0],
            after=images[1], description="", request_id=request, pool_id=1, owner=None,
            transaction=str(self.transaction),
        )  # fmt: skip

    def change(self, row: dict[str, Any], action: str, name: str, by: dict[str, str], **values: Any) -> None:
        """Change a row, with its audit entry."""
        before = dict(row)
        row.update(values)
        if "version" in row:
            row["version"] += 1
        self.stamp(row)
        self.audit(action, name, before, row, **by)

    def rows(self, when: str, **extra: Any) -> None:
        for table, rows in self.tables.items():
            if when != "sample" or table != "pools_auditentry":
                self.write("rows", when=when, table=table, rows=copy.deepcopy(rows), **extra)

    # --- calls ---
    def call(
        self, method: str, path: str, body: Any, happen: Callable[[dict[str, str]], tuple[int, Any]] | None, *,
        user: str = "ann", key: str | None = None, repeats: str | None = None, if_match: str | None = None,
        is_lost: bool = False, headers: Mapping[str, str] | None = None,
    ) -> str:  # fmt: skip
        """One call. `happen` makes the change in a transaction and returns status and body."""
        self._call += 1
        name = f"c{self._call}"
        request = {"method": method, "path": path, "body": body, "key": key, "if_match": if_match, "request_id": name}
        self.write("call", id=name, client=user, user=user, operation="x", request=request, repeats=repeats)
        self.begin()
        outcome = happen({"actor": user, "request": name}) if happen is not None else None
        self.now += 1
        if is_lost or outcome is None:
            self.write("lost", id=name, client=user, reason="RemoteProtocolError")
        else:
            kept = dict(headers or {})
            self.write("answer", id=name, client=user, status=outcome[0], body=copy.deepcopy(outcome[1]), headers=kept)
        return name

    # --- pools ---
    def pool(self, name: str) -> dict[str, Any]:
        return next(row for row in self.tables["pools_pool"] if row["name"] == name)

    def usage(self, pool: Mapping[str, Any]) -> dict[str, Any]:
        return next(row for row in self.tables["pools_leafusage"] if row["pool_id"] == pool["id"])

    def subpool_body(self, row: Mapping[str, Any]) -> dict[str, Any]:
        usage = self.usage(row)
        quota = row["last_quota"] if row["subpool_state"] == "ACTIVE" else 0
        return {
            "name": row["name"], "parent_pool": "team", "subpool_name": row["subpool_name"],
            "subpool_state": row["subpool_state"], "quota": quota, "last_quota": row["last_quota"],
            "used": usage["used"], "available": quota - usage["used"], "total_usage": usage["total_usage"],
            "live_workflows": usage["live_workflows"], "version": row["version"],
        }  # fmt: skip

    def tree_body(self) -> dict[str, Any]:
        root = self.pool("team")
        parts = [row for row in self.tables["pools_pool"] if row["parent_id"] == 1]
        shown = [self.subpool_body(row) for row in parts if row["subpool_state"] != "ARCHIVED"]
        shared = root["guarantee"] - sum(part["quota"] for part in shown)
        usage = self.usage(root)
        return {
            "pool": "team", "quota": root["guarantee"], "unallocated": shared, "version": root["version"],
            "shared": {
                "quota": shared, "used": usage["used"], "total_usage": usage["total_usage"],
                "available": shared - usage["used"], "live_workflows": usage["live_workflows"],
            },
            "subpools": shown,
        }  # fmt: skip

    def make_pool(self, key: int, short: str | None, quota: int, by: dict[str, str]) -> tuple[int, Any]:
        name = f"team--{short}" if short else "team"
        row = self.add(
            "pools_pool", id=key, name=name, parent_id=1 if short else None, subpool_name=short,
            subpool_state="ACTIVE" if short else None, last_quota=quota if short else None, archived=False,
            backend_id=None if short else 1, guarantee=None if short else quota, maximum=None, cohort_id=None,
            borrowing_limit=None, lending_limit=None, version=1,
        )  # fmt: skip
        self.add("pools_leafusage", pool_id=key, used=0, total_usage=0, live_workflows=0, committed=0)
        self.audit(f"{'subpool' if short else 'pool'}.created", f"pool/{name}", None, row, **by)
        return 200, self.subpool_body(row) if short else None

    def resize(self, name: str, quota: int, by: dict[str, str]) -> tuple[int, Any]:
        row = self.pool(name)
        self.change(row, "subpool.updated", f"pool/{name}", by, last_quota=quota)
        return 200, self.subpool_body(row)

    def delete(self, name: str, by: dict[str, str]) -> tuple[int, Any]:
        row = self.pool(name)
        self.change(row, "subpool.archived", f"pool/{name}", by, subpool_state="ARCHIVED")
        return 200, self.subpool_body(row)

    # --- work ---
    def count(self, pool: Mapping[str, Any]) -> None:
        """Recount a leaf."""
        held = [row for row in self.tables["pools_reservation"] if row["pool_id"] == pool["id"]]
        guaranteed = [row for row in held if row["priority"] != "LOW"]
        self.usage(pool).update(
            used=sum(row["held_gpus"] for row in guaranteed), total_usage=sum(row["held_gpus"] for row in held),
            live_workflows=len(held), committed=sum(max(row["held_gpus"], row["needed_gpus"]) for row in guaranteed),
        )  # fmt: skip

    def submit(
        self, name: str, leaf: str, priority: str, tasks: int, gpus: int, by: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        pool = self.pool(leaf)
        row = self.add(
            "scheduling_workflow", uuid=f"u-{name}", name=name, pool_id=pool["id"], root_pool_id=1, priority=priority,
            status="PENDING", submitted_by_id=1,
        )  # fmt: skip
        group = self.add(
            "scheduling_group", uuid=f"g-{name}", workflow_id=row["uuid"], name="first", status="SCHEDULING",
            gpus=tasks * gpus, gang=None,
        )  # fmt: skip
        for number in range(tasks):
            self._attempt(group["uuid"], name, f"t{number}", 0, gpus)
        self.add(
            "pools_reservation", workflow=row["uuid"], workflow_name=name, pool_id=pool["id"], priority=priority,
            held_gpus=0, needed_gpus=tasks * gpus,
        )  # fmt: skip
        self.count(pool)
        self.audit("workflow.submitted", f"workflow/{name}", None, row | {"pool": leaf}, **by)
        return 200, {"name": name, "workflow_uuid": row["uuid"], "pool": leaf, "status": "PENDING"}

    def _attempt(self, group: str, workflow: str, name: str, number: int, gpus: int) -> dict[str, Any]:
        return self.add(
            "scheduling_task", uuid=f"{workflow}-{name}-{number}", group_id=group, name=name, retry_id=number,
            status="SCHEDULING", gpu_count=gpus, start_time=None, node_name="",
        )  # fmt: skip

    def tasks(self, name: str) -> list[dict[str, Any]]:
        """The open attempts of a workflow."""
        rows = self.tables["scheduling_task"]
        return [row for row in rows if row["group_id"] == f"g-{name}" and row["status"] in {"SCHEDULING", "RUNNING"}]

    def _find(self, table: str, column: str, value: Any) -> dict[str, Any]:
        return next(row for row in self.tables[table] if row[column] == value)

    def _move(self, name: str, status: str, action: str, by: dict[str, str]) -> None:
        work = self._find("scheduling_workflow", "uuid", f"u-{name}")
        group = self._find("scheduling_group", "uuid", f"g-{name}")
        held = self._find("pools_reservation", "workflow", f"u-{name}")
        self.stamp(group)["status"] = {"PENDING": "SCHEDULING"}.get(status, status)
        if status in {"PENDING", "RUNNING"}:
            held["held_gpus"] = group["gpus"] if status == "RUNNING" else 0
        else:
            self.tables["pools_reservation"].remove(held)
        pool = next(row for row in self.tables["pools_pool"] if row["id"] == work["pool_id"])
        self.count(pool)
        self.change(work, action, f"workflow/{name}", by, status=status)

    def start(self, name: str) -> None:
        """The scheduler starts a workflow, in a transaction of its own."""
        self.begin()
        time = f"time-{self.now}"
        for row in self.tasks(name):
            self.stamp(row).update(status="RUNNING", start_time=time, node_name="n1")
        self.add(
            "scheduling_decision", id=len(self.tables.get("scheduling_decision", [])) + 1, time=time, action="start",
            pool_id=2, root_pool_id=1, workflow_id=f"u-{name}", group_id=f"g-{name}",
            tasks=[row["name"] for row in self.tasks(name)], nodes=["n1"] * len(self.tasks(name)), gpus=0,
        )  # fmt: skip
        self._move(name, "RUNNING", "workflow.started", {"actor": "system"})

    def preempt(self, name: str) -> None:
        """The scheduler preempts a workflow, which waits again."""
        self.begin()
        for row in self.tasks(name):
            self.stamp(row)["status"] = "FAILED_PREEMPTED"
            self.add("scheduling_receipt", task_id=row["uuid"], interruption_id=1, gpus=row["gpu_count"])
            self._attempt(row["group_id"], name, row["name"], row["retry_id"] + 1, row["gpu_count"])
        self._move(name, "PENDING", "workflow.waiting", {"actor": "system"})

    def cancel(self, name: str, by: dict[str, str]) -> tuple[int, Any]:
        for row in self.tasks(name):
            self.stamp(row)["status"] = "FAILED_CANCELED"
        self._move(name, "FAILED_CANCELED", "workflow.canceled", by)
        return 200, {"name": name}

    def workflow_body(self, name: str) -> dict[str, Any]:
        return {"name": name, "status": self._find("scheduling_workflow", "name", name)["status"]}

    # --- GPU quota ---
    def gpu_usage(self) -> None:
        live = [row for row in self.tables.get("pools_gpuallocation", []) if row["state"] == "committed"]
        sums = {
            f"{side}s_{what}": sum(row["count"] * row[f"{side}_{what}"] for row in live)
            for side in ("request", "limit")
            for what in ("tflops", "vram")
        }
        self.tables["pools_gpuusage"] = []
        assumed = {f"assumed_{key}": 0 for key in (*sums, "workers")}
        self.add("pools_gpuusage", namespace="x", workers=len(live), **sums, **assumed)

    def put_gpu_quota(self, tflops: int, by: dict[str, str]) -> tuple[int, Any]:
        spec = {"total": {"requests": {"tflops": str(tflops), "vram": "1Gi"}, "maxWorkers": 5}}
        rows = self.tables.setdefault("pools_gpuquota", [])
        if rows:
            self.change(rows[0], "gpu_quota.updated", "gpu_quota/x", by, spec=spec)
        else:
            row = self.add("pools_gpuquota", id=1, namespace="x", spec=spec, faults=[], source="api", version=1)
            self.audit("gpu_quota.created", "gpu_quota/x", None, row, **by)
        self.gpu_usage()
        return 200, {"namespace": "x", "spec": spec}

    def allocate(self, name: str, tflops: int, by: dict[str, str]) -> tuple[int, Any]:
        row = self.add(
            "pools_gpuallocation", id=len(self.tables.get("pools_gpuallocation", [])) + 1, namespace="x", name=name,
            request_tflops=tflops, request_vram=0, limit_tflops=0, limit_vram=0, count=1, state="committed",
            source="api",
        )  # fmt: skip
        self.audit("gpu_allocation.committed", f"gpu_allocation/x/{name}", None, row, **by)
        self.gpu_usage()
        return 200, {"id": name, "namespace": "x", "state": "committed"}

    def release(self, name: str, by: dict[str, str]) -> tuple[int, Any]:
        row = self._find("pools_gpuallocation", "name", name)
        self.change(row, "gpu_allocation.released", f"gpu_allocation/x/{name}", by, state="released")
        self.gpu_usage()
        return 200, {"id": name, "state": "released"}

    def gpu_body(self) -> dict[str, Any]:
        usage = self.tables["pools_gpuusage"][0]
        sides = ("requests", "limits")
        used = {side: {what: str(usage[f"{side}_{what}"]) for what in ("tflops", "vram")} for side in sides}
        return {"namespace": "x", "status": {"used": used | {"workers": usage["workers"]}}}


def tell() -> list[Line]:
    """The lines of a right record, on one pool `team` of 10 GPUs and one node of 8."""
    story = Story()
    story.tables["pools_reservation"] = []
    backend = story.add("pools_backend", id=1, name="one", kind="simulated", offline=False, version=1)
    node = story.add("pools_node", id=1, name="n1", backend_id=1, gpus=8)
    story.audit("backend.created", "backend/one", None, backend, actor="root")
    story.audit("node.created", "node/n1", None, node, actor="root")
    story.make_pool(1, None, 10, {"actor": "root"})
    story.add("pools_user", id=1, username="ann")
    story.add("pools_user", id=2, username="bob")
    story.add("auth_group", id=1, name="osmo-admin")
    story.add("pools_roleassignment", id=1, user_id=1, group_id=1)
    story.rows("start")
    subpools = "/api/configs/pool/team/subpool"
    one = f"{subpools}/a"

    story.call("POST", subpools, {"subpool_name": "a", "quota": 4}, lambda by: story.make_pool(2, "a", 4, by))
    story.call("PATCH", one, {"quota": 6}, lambda by: story.resize("team--a", 6, by))
    story.call("GET", subpools, None, lambda by: (200, story.tree_body()), user="bob")
    file = {"file": "…"}
    path = "/api/pool/team--a/workflow?priority=HIGH"
    first = story.call("POST", path, file, lambda by: story.submit("h1-1", "team--a", "HIGH", 2, 1, by), key="k1")
    answer = {"name": "h1-1", "workflow_uuid": "u-h1-1", "pool": "team--a", "status": "PENDING"}
    replayed = {"Idempotent-Replayed": "true"}
    story.call("POST", path, file, lambda by: (200, answer), key="k1", repeats=first, headers=replayed)
    story.write("fault", fault=1, name="kill", phase="begin", target="worker 1", step=5)
    story.start("h1-1")
    story.call("GET", subpools, None, lambda by: (200, story.tree_body()), user="bob")
    story.call("POST", path, file, lambda by: story.submit("h2-1", "team--a", "HIGH", 1, 5, by))
    low = "/api/pool/team/workflow?priority=LOW"
    story.call("POST", low, file, lambda by: story.submit("h3-1", "team", "LOW", 1, 4, by))
    story.start("h3-1")
    story.preempt("h3-1")
    story.start("h3-1")
    story.rows("sample", sample=1)
    story.call("GET", "/api/workflow/h3-1", None, lambda by: (200, story.workflow_body("h3-1")))
    story.call("POST", "/api/workflow/h3-1/cancel", {}, lambda by: story.cancel("h3-1", by), user="bob")
    story.call("GET", "/api/workflow/h3-1", None, lambda by: (200, story.workflow_body("h3-1")))
    quota = "/api/configs/gpu_quota/x"
    story.call("PUT", quota, {"spec": {}}, lambda by: story.put_gpu_quota(20, by))
    allocations = "/api/gpu_quota/x/allocation"
    story.call("POST", allocations, {"id": "a1"}, lambda by: story.allocate("a1", 15, by))
    detail = {"code": "total.max.tflops.request", "requested": "10", "limit": "20", "used": "15", "message": "no"}
    refusal = {"message": "quota exceeded", "details": [detail]}
    story.call("POST", allocations, {"id": "a2"}, lambda by: (409, refusal), user="bob")
    story.call("GET", quota, None, lambda by: (200, story.gpu_body()))
    story.call("DELETE", f"{allocations}/a1", None, lambda by: story.release("a1", by))
    story.call("POST", allocations, {"id": "a3"}, lambda by: story.allocate("a3", 20, by), user="bob")
    too_much = {"code": "quota_exceeds_parent", "requested": 11, "limit": 10, "free": 10, "message": "too much"}
    refused = {"message": "too much", "details": [too_much]}
    story.call("PATCH", one, {"quota": 11}, lambda by: (400, refused), user="bob")
    story.call("PATCH", one, {"quota": 7}, lambda by: (412, {"message": "stale"}), if_match='"1"')
    story.call(
        "POST", subpools, {"subpool_name": "b", "quota": 2}, lambda by: story.make_pool(3, "b", 2, by), is_lost=True
    )
    story.call("PATCH", one, {"quota": 1}, None, user="bob")
    story.call("DELETE", f"{subpools}/b", None, lambda by: story.delete("team--b", by))
    preview = {"dry_run": True, "before": story.tree_body(), "after": None, "violations": []}
    story.call("PATCH", f"{one}?dry_run=True", {"quota": 9}, lambda by: (200, preview))

    def both(by: dict[str, str]) -> tuple[int, Any]:
        return 200, {"workflows": [story.submit(f"h4{each}-1", "team", "LOW", 1, 8, by)[1] for each in "xy"]}

    story.call("POST", "/api/pool/team/workflows", {"workflows": [{}, {}]}, both)
    story.call("GET", "/api/quota_tree", None, lambda by: (200, _quota_tree(story)))
    story.call("GET", "/api/pool_quota?all_pools=True", None, lambda by: (200, _pool_quota(story)))
    story.call("GET", "/api/audit?limit=4", None, lambda by: (200, _audit_page(story, 4)))
    story.call("GET", "/api/audit?limit=99", None, lambda by: (200, _audit_page(story, 99, only="bob")), user="bob")
    story.rows("final")
    story.write("reading", when="final", name="queue", path="/api/queue", status=200, body={"entries": _queue()})
    story.write("end", outcome="complete")
    return json.loads(json.dumps(story.lines))


def _quota_tree(story: Story) -> dict[str, Any]:
    def node(name: str, kind: str, parent: str | None, usage: int) -> dict[str, Any]:
        quotas = [{"flavor": "default", "resource": "gpu", "usage": usage}]
        return {"name": name, "kind": kind, "parent": parent, "quotas": quotas}

    own, part = (story.usage(story.pool(name))["total_usage"] for name in ("team", "team--a"))
    parts = [node("team--_shared", "shared", "team", own), node("team--a", "subpool", "team", part)]
    return {"nodes": [node("team", "pool", None, own + part), *parts]}


def _pool_quota(story: Story) -> dict[str, Any]:
    body = story.tree_body()

    def row(name: str, part: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        numbers = {
            "quota_used": part["used"], "quota_free": part["available"], "quota_limit": part["quota"],
            "total_usage": part["total_usage"], "total_capacity": 8, "total_free": 6,
        }  # fmt: skip
        return {"name": name, "resource_usage": {key: str(value) for key, value in numbers.items()}} | more

    rows = [row("team", body["shared"])]
    for part in body["subpools"]:
        names = {key: part[key] for key in ("parent_pool", "subpool_name", "subpool_state")}
        rows.append(row(part["name"], part, **names))
    keys = ("quota_used", "quota_free", "quota_limit", "total_usage")
    sums = {key: str(sum(int(each["resource_usage"][key]) for each in rows)) for key in keys}
    return {"node_sets": [{"pools": rows}], "resource_sum": sums | {"total_capacity": "8", "total_free": "6"}}


def _audit_page(story: Story, limit: int, *, only: str = "") -> dict[str, Any]:
    """The newest entries: all of them, or those of one user."""
    found = [row for row in reversed(story.tables["pools_auditentry"]) if only in {"", row["actor"]}]
    columns = ("id", "actor", "action", "object", "before", "after", "request_id")
    shown = [{key: row[key] for key in columns} for row in found[:limit]]
    return {"entries": shown, "more_entries": len(found) > limit}


def _queue() -> list[dict[str, Any]]:
    def entry(position: int, workflow: str, gpus: int, code: str, numbers: tuple[int, int, int]) -> dict[str, Any]:
        reason = dict(zip(("requested", "free", "missing"), numbers, strict=True)) | {
            "code": code,
            "message": "why",
            "queue": "osmo-pool-one-team--a",
        }
        return {
            "workflow": workflow, "group": "first", "backend": "one", "position": position, "gpus": gpus,
            "reason": reason,
        }  # fmt: skip

    return [
        entry(1, "h2-1", 5, "over_quota", (5, 4, 1)),
        entry(2, "h4x-1", 8, "no_room", (8, 6, 2)),
        entry(3, "h4y-1", 8, "no_room", (8, 6, 2)),
    ]
