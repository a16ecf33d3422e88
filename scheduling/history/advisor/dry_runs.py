"""The changes of a proposal as ready dry runs: one question about the present state, and a command for each change."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

from pools.domain.names import SHARED_QUEUE, split_name
from pools.domain.values.amounts import gpu_key

QuotaChange = TypedDict(
    "QuotaChange",
    {"name": str, "key": str, "from": float | int | None, "to": float | int | None, "flavor": NotRequired[str]},
)
"""A change of a quota or of a lending limit, in a pool with GPU flavors of one of them; null means no limit."""


def what_if(change: QuotaChange) -> dict[str, Any]:
    """The change in the form of a question about the present state, where -1 means no limit."""
    to = -1 if change["to"] is None else change["to"]
    value = {gpu_key(change["flavor"]): to} if "flavor" in change else to
    return {"set": {"name": change["name"], change["key"]: value}}


def dry_run_commands(changes: Sequence[QuotaChange], backend: str | None = None) -> list[str]:
    """Commands that show the effect of the changes on an installation with these pools and subpools, and change
    nothing: first all of them in the present state, then each of them as the change that it would be. The remainder
    of a pool follows from its subpools. `backend`: the cluster of the pools, which the question about the present state
    has to name where there are several; None: not known."""
    question = json.dumps({"changes": [what_if(change) for change in changes]})
    words = ["osmo", "simulate", "--live", *([] if backend is None else ["--backend", backend]), "-"]
    commands = [f"echo {shlex.quote(question)} | {shlex.join(words)}"]
    pools: dict[str, dict[str, Any]] = {}
    quotas: dict[str, dict[str, Any]] = {}
    for change in changes:
        name, to = change["name"], change["to"]
        pool, subpool = split_name(name)
        if subpool is None:
            key = "guarantee" if change["key"] == "quota" else change["key"]
            values = pools.setdefault(name, {})
            if "flavor" in change:
                values = values.setdefault("resources", {}).setdefault("flavors", {}).setdefault(change["flavor"], {})
            values[key] = to
        elif subpool != SHARED_QUEUE and "flavor" in change:
            quotas.setdefault(name, {})[change["flavor"]] = to
        elif subpool != SHARED_QUEUE:
            words = ["osmo", "pool", "subpool", "update", pool, subpool, "--quota", str(to), "--dry-run"]
            commands.append(shlex.join(words))
    for name, kinds in quotas.items():
        parts = ",".join(f"{flavor}={gpus}" for flavor, gpus in kinds.items())
        pool, subpool = split_name(name)
        words = ["osmo", "pool", "subpool", "update", pool, subpool or "", "--quotas", parts, "--dry-run"]
        commands.append(shlex.join(words))
    for name, values in pools.items():
        update = shlex.join(["osmo", "config", "update", "POOL", name, "--dry-run"])
        commands.append(f"echo {shlex.quote(json.dumps(values))} | {update}")
    return commands
