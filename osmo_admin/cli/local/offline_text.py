"""The answers of `osmo simulate` and `osmo podgroup` for people: small tables and messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pools.domain.numbers import TREE_NUMBERS
from pools.domain.values.amounts import gpu_words
from pools.domain.values.counting import counted


def simulation_text(answer: dict[str, Any]) -> str:
    """Steps, workloads, queues and cohorts; empty sections are left out."""
    sections = [
        *(_loss_sections(answer["loss"]) if "loss" in answer else ()),
        _section_text("STEPS", [f"{step['pass']:>3}  {step['message']}" for step in answer["steps"]]),
        _section_text("WORKLOADS", _workload_lines(answer["workloads"])),
        _section_text("RESERVATIONS", _reservation_lines(answer["workloads"])),
        _section_text("QUEUES", _node_lines(answer["queues"], with_fair_share=True)),
        _section_text("COHORTS", _node_lines(answer["cohorts"], with_fair_share=False)),
        _section_text("VIOLATIONS", [f"{v['path']}: {v['message']}" for v in answer["violations"]]),
    ]
    if not answer["settled"]:
        sections.append("Stopped at the limit of passes: the last pass still changed something.")
    return "\n\n".join(section for section in sections if section) or "Nothing to schedule."


def _loss_sections(loss: dict[str, Any]) -> list[str]:
    """What the changes of nodes do: work, quotas, queues."""
    nodes = counted(len(loss["nodes"]), "node")
    lines = [
        f"{each['node']}: {each['gpus_before']} to {_gpus_text(each)}; {each['held']} are held, {each['free']} free"
        for each in loss["resized"]
    ]
    heads = ["Loses GPUs at once", "Queue", "GPUs", "Priority", "Afterwards"]
    rows = [
        [
            each["workload"],
            each["queue"],
            each.get("gpus_text", str(each["gpus"])),
            _priority_text(each),
            _afterwards_text(each),
        ]
        for each in loss["workloads"]
    ]
    rows += [
        [
            each["workload"],
            each["queue"],
            each.get("gpus_text", str(each["gpus"])),
            "",
            "waits: its GPUs go to other work",
        ]
        for each in loss["displaced"]
    ]
    guarantees = [
        f"{each['queue']}: {each['held']} of {each['quota']} {_units(each)}, {each['missing']} missing"
        for each in loss["guarantees"]
    ]
    queues = [
        f"{each['queue']}: {counted(each['gangs'], 'gang waits', 'gangs wait')} for {_gpus_text(each)}, "
        f"{each['gangs_before']} for {each['gpus_before']} before"
        for each in loss["queues"]
    ]
    title = f"WITHOUT {nodes} ({_gpus_text(loss)})".upper() if loss["nodes"] else "NODES OF ANOTHER SIZE"
    nothing = ["No work runs there."] if loss["nodes"] and not rows else []
    return [
        _section_text(title, [*lines, *nothing, *_table_lines(heads, rows)]),
        _section_text("QUOTAS THAT NO LONGER HOLD", guarantees),
        _section_text("QUEUES THAT CHANGE", queues),
    ]


def _units(entry: dict[str, Any]) -> str:
    """What the GPUs of a quota are called."""
    flavor = entry.get("flavor", "")
    return gpu_words(flavor, [flavor] if entry.get("shared") else ())[1]


def _gpus_text(entry: dict[str, Any]) -> str:
    text: str = entry.get("gpus_text") or counted(entry["gpus"], "GPU")
    return text


def _priority_text(work: dict[str, Any]) -> str:
    return "LOW" if work["preemptible"] else "HIGH or NORMAL"


def _afterwards_text(work: dict[str, Any]) -> str:
    if not work["restarts"]:
        return "has ended: its exit actions do not restart it"
    if work["state"] == "running":
        return f"{'runs' if not work['whole'] else 'starts again'} on {', '.join(work['nodes'])}"
    position = "" if work["position"] is None else f" at position {work['position']} of all waiting work"
    start = f". {work['start']['text']}" if work.get("start") else ""
    return f"waits{position}{start}"


def validation_text(answer: dict[str, Any]) -> str:
    """One line for each violation, and the verdict."""
    lines = [f"{v['severity']}: {v['path']}: {v['message']} ({v['code']})" for v in answer["violations"]]
    return "\n".join([*lines, "valid" if answer["valid"] else "not valid"])


def plan_text(answer: dict[str, Any]) -> str:
    """Readiness, the tree, the next pods, the order of eviction."""
    state = "satisfied" if answer["satisfied"] else "ready" if answer["ready"] else "not ready"
    rows = [
        [
            group["name"],
            group["parent"] or "",
            f"{group['count']}/{group['threshold']}",
            "satisfied" if group["satisfied"] else "ready" if group["ready"] else "not ready",
            "required" if group["required"] else "",
        ]
        for group in answer["sub_groups"]
    ]
    kept = counted(answer["non_preemptible_pods"], "pod")
    sections = [
        f"{state}, {answer['count']} of {answer['threshold']}; {kept} not preemptible",
        _section_text("SUB-GROUPS", _table_lines(["Name", "Parent", "Have", "State", "Needed now"], rows)),
        _section_text("TO EVICT, STALE", [", ".join(answer["to_evict"])] if answer["to_evict"] else []),
        _section_text("NEXT", [", ".join(answer["next"])] if answer["next"] else []),
        _section_text(
            "EVICTION ORDER", [f"{n:>3}  {', '.join(step)}" for n, step in enumerate(answer["give_up_order"], start=1)]
        ),
        _section_text("VIOLATIONS", [f"{v['severity']}: {v['path']}: {v['message']}" for v in answer["violations"]]),
    ]
    return "\n\n".join(section for section in sections if section)


def _workload_lines(workloads: dict[str, Any]) -> list[str]:
    rows = []
    for name, work in workloads.items():
        nodes = sorted({task["node"] for task in work["tasks"].values() if task["node"]})
        reason = work["reason"]["message"] if work["reason"] else ", ".join(nodes)
        if work.get("choice") is not None:
            reason = f"{reason} ({work['choices'][work['choice'] - 1]})".strip()
        rows.append([name, work["state"], str(work["position_in_queue"] or ""), reason])
    return _table_lines(["Name", "State", "Position", "Nodes or reason"], rows)


def _reservation_lines(workloads: dict[str, Any]) -> list[str]:
    lines = []
    for name, work in workloads.items():
        reserved = work.get("reservation")
        if reserved is not None:
            latest, word = reserved["latest_start"], "at the latest" if reserved["is_certain"] else "probably"
            lines.append(
                f"{name}  starts {word} at {latest}" if latest is not None else f"{name}  starts at an unknown time"
            )
    return lines


def _node_lines(nodes: dict[str, Any], *, with_fair_share: bool) -> list[str]:
    columns = ["subtree_quota", "usage", "available", "borrowed", "lent", "debt"]
    rows = []
    for name, node in nodes.items():
        cells = [_amounts_text(node[column]) for column in columns]
        if with_fair_share:
            cells.append(_amounts_text(node["fair_share"] or {}))
        rows.append([name, node["parent"] or "", *cells])
    heads = ["Name", "Parent", *(TREE_NUMBERS[column].label for column in columns)]
    return _table_lines([*heads, "Fair share"] if with_fair_share else heads, rows)


def _amounts_text(amounts: dict[str, Any]) -> str:
    """GPUs of the default flavor as a plain number, every other resource with its name."""
    texts = [
        str(amount) if key == "default/gpu" else f"{amount} {key.removeprefix('default/')}"
        for key, amount in amounts.items()
    ]
    return ", ".join(texts) or "0"


def _section_text(title: str, lines: Iterable[str]) -> str:
    body = list(lines)
    return "\n".join([title, *body]) if body else ""


def _table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]
