"""GPU quotas of namespaces: never over a cap after a growth, refused only when a cap was in the way."""

from __future__ import annotations

from collections.abc import Iterator

from tests.history.checker.gpu_states import NamespaceState, amounts_of, milli, namespace_timelines
from tests.history.checker.history import SLACK, Call, History
from tests.history.checker.violations import Violation, calls, entries


def gpu_quota_never_over_its_cap(history: History) -> Iterator[Violation]:
    """No allocation is made or grows beyond a cap on the total of its namespace. (A lower cap is never refused, so
    usage may be above a cap that was reduced later.)"""
    for timeline in history.once(namespace_timelines).values():
        for state in timeline.states:
            entry = state.entry
            if entry is None or entry.kind != "gpu_allocation" or entry.after is None or state.caps is None:
                continue
            if entry.after["state"] == "released":
                continue
            was_live = entry.before is not None and entry.before["state"] != "released"
            before = amounts_of(entry.before) if was_live and entry.before is not None else {}
            totals = state.totals()
            for key, amount in amounts_of(entry.after).items():
                cap = state.caps.get(key)
                if cap is not None and amount > before.get(key, 0) and totals[key] > cap:
                    sentence = (
                        f"after entry {entry.id} ({entry.action}) {len(state.live)} live allocations have "
                        f"{totals[key] / 1000:g} {key} together, the cap is {cap / 1000:g}."
                    )
                    evidence = entries([entry.id])
                    yield Violation("gpu_quota_never_over_its_cap", f"gpu_quota/{state.namespace}", sentence, evidence)
                    break


def gpu_refusals_are_true(history: History) -> Iterator[Violation]:
    """An allocation that is refused for a total did not fit at some moment between the call and its answer, and the
    `used` of the refusal was the usage at such a moment."""
    timelines = history.once(namespace_timelines)
    for call in history.calls:
        match call.status, call.method, call.parts:
            case 409, "POST" | "PATCH", ["gpu_quota", namespace, "allocation", *_] if namespace in timelines:
                timeline = timelines[namespace]
            case _:
                continue
        totals = [each for each in call.details if str(each.get("code", "")).startswith("total.")]
        if not totals or not timeline.is_complete:
            continue
        window = timeline.between(call.begin - SLACK, call.end + SLACK)
        if not any(all(_is_true(detail, state) for detail in totals) for state in window):
            first = totals[0]
            sentence = (
                f"call {call.id} was refused for {first['code']} (requested {first.get('requested')}, limit "
                f"{first.get('limit')}, used {first.get('used')}), which was never so between call and answer."
            )
            evidence = calls(call.id) + entries(state.entry.id for state in window if state.entry is not None)
            yield Violation("gpu_refusals_are_true", f"gpu_quota/{namespace}", sentence, evidence)


def _is_true(detail: object, state: NamespaceState) -> bool:
    assert isinstance(detail, dict)
    _, _, resource, *side = str(detail["code"]).split(".")
    key = "workers" if resource.lower().startswith("worker") else f"{side[0]}s.{resource}"
    if state.caps is None or key not in state.caps:
        return False
    used, cap = state.totals()[key], state.caps[key]
    return used == milli(detail["used"]) and cap == milli(detail["limit"])


def gpu_reads_are_true(history: History) -> Iterator[Violation]:
    """The usage that an answer shows was the committed usage at some moment between the call and its answer."""
    timelines = history.once(namespace_timelines)
    for call in history.calls:
        match call.is_ok and call.method, call.parts:
            case "GET", ["configs", "gpu_quota", namespace] if namespace in timelines:
                timeline = timelines[namespace]
            case _:
                continue
        if not timeline.is_complete:
            continue
        shown = _shown(call)
        window = timeline.between(call.begin - SLACK, call.end + SLACK)
        if not any(state.totals("committed") == shown for state in window):
            sentence = (
                f"call {call.id} showed {shown['workers'] // 1000} workers and {shown['requests.tflops'] / 1000:g} "
                f"requested TFLOPS; between call and answer there were "
                f"{', '.join(sorted({_brief(state) for state in window}))}."
            )
            evidence = calls(call.id) + entries(state.entry.id for state in window if state.entry is not None)
            yield Violation("gpu_reads_are_true", f"gpu_quota/{namespace}", sentence, evidence)


def _shown(call: Call) -> dict[str, int]:
    used = call.answer["status"]["used"]
    return {
        f"{side}.{what}": milli(used[side][what]) for side in ("requests", "limits") for what in ("tflops", "vram")
    } | {"workers": 1000 * int(used["workers"])}


def _brief(state: NamespaceState) -> str:
    totals = state.totals("committed")
    return f"{totals['workers'] // 1000} workers with {totals['requests.tflops'] / 1000:g}"
