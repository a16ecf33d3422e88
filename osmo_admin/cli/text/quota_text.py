"""GPU quota as text for people: usage and caps, and the counted workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from osmo_admin.cli.base.tables import (
    AnswerPart,
    AnswerText,
    Facts,
    Shown,
    build_table,
    headings,
    list_table,
    local_time,
    plain_number,
)
from pools.domain.columns import pick
from pools.domain.list_columns import CONDITION_COLUMNS, GPU_AMOUNT_COLUMNS, GPU_QUOTA_COLUMNS
from pools.domain.numbers import GPU_QUOTA_NUMBERS

QUOTA_RESOURCES = (
    ("requests", "tflops"),
    ("requests", "vram"),
    ("limits", "tflops"),
    ("limits", "vram"),
)


def quota_table(quotas: Sequence[Mapping[str, Any]]) -> AnswerPart:
    """One line for each namespace: usage of each cap, and the status."""
    keys = ["namespace", *GPU_QUOTA_NUMBERS, "status"]
    rows = ([quota["namespace"], *_usage_cells(quota), quota_status(quota)] for quota in quotas)
    listed = [dict(zip(keys, row, strict=True)) for row in rows]
    return list_table(pick(GPU_QUOTA_COLUMNS, " ".join(keys)), listed, nothing="No GPU quotas.")


def quota_status(quota: Mapping[str, Any]) -> str:
    """The worst condition in one word."""
    true = {each["type"] for each in quota["status"]["conditions"] if each["status"] == "True"}
    if "Ready" not in true:
        return "INVALID"
    return "EXCEEDED" if "Exceeded" in true else "ALERT" if "AlertThresholdReached" in true else "OK"


def _usage_cells(quota: Mapping[str, Any]) -> Iterator[Shown]:
    used, total = quota["status"]["used"], quota["spec"].get("total", {})
    for side, resource in QUOTA_RESOURCES:
        yield _used_of_cap(used[side][resource], (total.get(side) or {}).get(resource))
    yield _used_of_cap(used["workers"], total.get("maxWorkers"))


def _used_of_cap(used: Any, cap: Any) -> Shown:
    text = f"{used}" if cap is None else f"{used} of {cap}"
    return Shown(text, (plain_number(used), plain_number(cap)))


def summarize_caps(effect: Any) -> Any:
    """The answer of a dry run, reduced to the caps and the status before and after."""
    if not isinstance(effect, Mapping):
        return effect
    sides = {side: effect.get(side) for side in ("before", "after")}
    return {
        **effect,
        **{
            side: {"status": quota_status(quota), **quota["spec"]} if quota is not None else None
            for side, quota in sides.items()
        },
    }


def quota_facts(quota: Mapping[str, Any]) -> AnswerText:
    """All facts of one quota."""
    spec, status = quota["spec"], quota["status"]
    total, single, left = spec.get("total", {}), spec.get("single", {}), status["availablePercent"]
    rows = []
    for side, resource in QUOTA_RESOURCES:
        cap = (total.get(side) or {}).get(resource)
        per_gpu = (single.get(f"max{side.title()}") or {}).get(resource)
        default = (single.get(f"default{side.title()}") or {}).get(resource)
        percent = _percent_cell(left[f"{side}.{resource}"] if cap is not None else None)
        amounts = map(_amount_cell, (status["used"][side][resource], cap))
        rows.append((f"{side}.{resource}", *amounts, percent, _amount_cell(per_gpu), _amount_cell(default)))
    workers = total.get("maxWorkers")
    percent = _percent_cell(None if workers is None else left["workers"])
    rows.append(("workers", status["used"]["workers"], workers, percent, None, None))
    head = Facts(
        [
            ("Namespace", quota["namespace"]),
            ("Status", quota_status(quota)),
            ("Alert threshold", f"{total.get('alertThresholdPercent')} %"),
            ("GPUs of one worker", single.get("maxGPUCount")),
            ("Reserved workers", (quota.get("assumed") or {}).get("workers")),
            ("Source", quota.get("source")),
            ("Version", quota.get("version")),
        ]
    )
    header = headings(pick(GPU_AMOUNT_COLUMNS, "amount used cap free cap_per_gpu default_per_gpu"))
    conditions = (
        (each["type"], each["status"], local_time(each["lastTransitionTime"]), each["message"])
        for each in status["conditions"]
    )
    # The amounts come last: the last table is the one of `-o csv`.
    names = ["Free percent" if each == GPU_AMOUNT_COLUMNS["free"].heading else each for each in header]
    amounts_table = build_table(header, rows, names=names)
    return [head, build_table(headings(CONDITION_COLUMNS.values()), conditions), amounts_table]


def _amount_cell(amount: Any) -> Shown:
    return Shown(amount, plain_number(amount))


def _percent_cell(percent: str | None) -> Shown:
    return Shown(None if percent is None else f"{percent} %", percent)


def fits_message(answer: Mapping[str, Any]) -> str:
    """The number of additional workers that fit, and the caps that refuse the next one."""
    if answer["fits"] is None:
        return f"No cap of {answer['namespace']} counts such workers; any number fits."
    count = {0: "No such worker fits", 1: "1 more such worker fits"}.get(
        answer["fits"], f"{answer['fits']} more such workers fit"
    )
    reasons = "\n".join(f"  - {each['message']}" for each in answer["stopped_by"])
    return f"{count} in {answer['namespace']}." + (f" The next one is refused:\n{reasons}" if reasons else "")


def repairs_table(answer: Mapping[str, Any]) -> AnswerPart:
    """One line for each repair of a rebuild."""
    if not answer["differences"]:
        return "Nothing to repair: the ledger agrees with the pods."
    rows = ([each[key] for key in ("namespace", "path", "code", "before", "after")] for each in answer["differences"])
    return build_table(("Namespace", "Amount", "Repair", "Before", "After"), rows)
