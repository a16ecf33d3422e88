"""Answers about everything at once: the quotas of all pools, and the pages of the audit trail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.history.checker.history import SLACK, Call, Entry, History
from tests.history.checker.pool_states import SHARED, Leaf, PoolState, Timeline, pool_timelines
from tests.history.checker.reads import JITTER
from tests.history.checker.violations import Violation, calls, entries

SUMS = ("quota_used", "quota_free", "quota_limit", "total_usage")
NODES = ("total_capacity", "total_free")
PLATFORM_READERS = frozenset({"osmo-admin", "osmo-viewer"})

Interval = tuple[float, float]
Parts = Mapping[str, Mapping[str, Any]]


def _answers(history: History, *parts: str) -> Iterator[Call]:
    for call in history.calls:
        if call.is_ok and call.method == "GET" and call.parts == list(parts):
            yield call


# --- the quotas of all pools ------------------------------------------------------------------------------------------
def pool_quotas_add_up(history: History) -> Iterator[Violation]:
    """Within one answer of `/api/pool_quota`: the sums are those of the rows, free is limit minus use, pools on the
    same nodes show the same capacity, and the sums count it once."""
    for call in _answers(history, "pool_quota"):
        for name, text in _wrong_sums(call.answer):
            yield Violation("pool_quotas_add_up", name, f"call {call.id} showed {text}.", calls(call.id))
            break


def _numbers(usage: Mapping[str, str]) -> dict[str, int]:
    return {key: int(value) for key, value in usage.items()}


def _wrong_sums(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    shown = _numbers(body["resource_sum"])
    rows = [(row["name"], _numbers(row["resource_usage"])) for nodes in body["node_sets"] for row in nodes["pools"]]
    for name, usage in rows:
        if usage["quota_free"] != usage["quota_limit"] - usage["quota_used"]:
            yield (
                f"pool/{name}",
                f"{usage['quota_free']} free of {usage['quota_limit']} with {usage['quota_used']} used",
            )
        if not 0 <= usage["quota_used"] <= usage["total_usage"]:
            yield f"pool/{name}", f"{usage['quota_used']} guaranteed GPUs in use of {usage['total_usage']} in total"
        if not usage["total_free"] <= usage["total_capacity"]:
            yield f"pool/{name}", f"{usage['total_free']} free GPUs of {usage['total_capacity']}"
    for key in SUMS:
        if shown[key] != sum(usage[key] for _, usage in rows):
            yield "pool_quota", f"{key} {shown[key]}, and its rows add up to {sum(usage[key] for _, usage in rows)}"
    for key in NODES:
        once = 0
        for nodes in body["node_sets"]:
            found = {_numbers(row["resource_usage"])[key] for row in nodes["pools"]}
            if len(found) > 1:
                yield "pool_quota", f"{key} of the same nodes as {sorted(found)}"
            once += min(found, default=0)
        if shown[key] != once:
            yield "pool_quota", f"{key} {shown[key]}, and the nodes have {once}"


def pool_quotas_show_one_state(history: History) -> Iterator[Violation]:
    """There is a moment between call and answer at which every pool of the answer was as it shows: its quota, the
    quotas and states of its subpools, and the GPUs in use."""
    timelines = {timeline.states[-1].name: timeline for timeline in history.once(pool_timelines).values()}
    for call in _answers(history, "pool_quota"):
        moments: dict[str, list[Interval]] = {}
        for pool, parts in _rows_by_pool(call.answer).items():
            if pool not in timelines:
                continue
            window = timelines[pool].between(call.begin - SLACK, call.end + SLACK)
            differences = [_difference(parts, state, timelines[pool], call) for state in window]
            matching = [state for state, text in zip(window, differences, strict=True) if not text]
            if not matching:
                known = entries(entry.id for state in window for entry in state.entries if entry.kind == "pool")
                sentence = f"call {call.id} showed {differences[-1]}; at no moment between call and answer was it so."
                yield Violation("pool_quotas_show_one_state", f"pool/{pool}", sentence, calls(call.id) + known)
                break
            moments[pool] = [(state.begin, state.end) for state in matching]
        else:
            yield from _no_common_moment(call, moments)


def _rows_by_pool(body: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    found: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for nodes in body["node_sets"]:
        for row in nodes["pools"]:
            parent = row.get("parent_pool")
            found[parent or row["name"]][row["subpool_name"] if parent else SHARED] = row
    return dict(found)


def _difference(parts: Parts, state: PoolState, timeline: Timeline, call: Call) -> str:
    """The first difference between the rows of a pool and one of its states, or nothing."""
    exist = {short for short, leaf in state.leaves.items() if short == SHARED or leaf.state in {"ACTIVE", "DELETING"}}
    if parts.keys() != exist:
        return f"the subpools {sorted(parts.keys() - {SHARED})} and not {sorted(exist - {SHARED})}"
    near = timeline.between(state.begin - JITTER, min(state.end, call.end + SLACK) + JITTER)
    for short, row in parts.items():
        leaf, usage = state.leaves.get(short, Leaf(short)), _numbers(row["resource_usage"])
        if short != SHARED and row["subpool_state"] != leaf.state:
            return f"{row['name']} {row['subpool_state']} and not {leaf.state}"
        quota = leaf.accounting_quota if short != SHARED else state.guarantee - state.allocated
        if usage["quota_limit"] != quota and (short != SHARED or state.guarantee >= 0):
            return f"{row['name']} with quota {usage['quota_limit']} and not {quota}"
        used = usage["quota_used"], usage["total_usage"]
        possible = {(found.used, found.total) for each in near for found in (each.leaves.get(short, Leaf(short)),)}
        if timeline.knows_usage and used not in possible:
            return f"{row['name']} with {used} GPUs in use (guaranteed, all) and not {(leaf.used, leaf.total)}"
    return ""


def _no_common_moment(call: Call, moments: Mapping[str, Sequence[Interval]]) -> Iterator[Violation]:
    """Each pool was so at some moment; a violation if no moment is common to all."""
    left: list[Interval] = [(call.begin - SLACK, call.end + SLACK)]
    for pool, found in moments.items():
        left = [
            (max(begin, first), min(end, last))
            for begin, end in found
            for first, last in left
            if max(begin, first) <= min(end, last) + 2 * JITTER
        ]
        if not left:
            sentence = f"call {call.id} showed it at a moment that is not one of the other pools in the same answer."
            yield Violation("pool_quotas_show_one_state", f"pool/{pool}", sentence, calls(call.id))
            return


# --- pages of the audit trail -----------------------------------------------------------------------------------------
def audit_pages_are_true(history: History) -> Iterator[Violation]:
    """A page of the audit trail shows entries as they are in the final trail, the newest first, none that was committed
    after the answer; and no entry that the reader may see, was committed before the call and belongs between the shown
    ones is missing."""
    known = {entry.id: entry for entry in history.entries}
    everything = history.once(_readers_of_everything)
    for call in _answers(history, "audit"):
        shown = call.answer["entries"]
        for subject, text, events in (
            *_wrong_order(call, shown),
            *_wrong_entries(call, shown, known),
            *_missing_entries(call, shown, history.entries, sees_all=call.user in everything),
        ):
            yield Violation(
                "audit_pages_are_true", subject, f"call {call.id} {text}.", calls(call.id) + entries(events)
            )
            break


Fault = tuple[str, str, list[int]]


def _readers_of_everything(history: History) -> set[str]:
    """Users with a role of the platform; roles of clients do not change in a run."""
    names = {row["id"]: row["username"] for row in history.rows("pools_user")}
    roles = {row["id"]: row["name"] for row in history.rows("auth_group")}
    return {
        names[row["user_id"]]
        for row in history.rows("pools_roleassignment")
        if roles.get(row["group_id"]) in PLATFORM_READERS and row["user_id"] in names
    }


def _wrong_order(call: Call, shown: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    for newer, older in pairwise(shown):
        if newer["id"] <= older["id"]:
            ids = [newer["id"], older["id"]]
            yield f"audit entry {older['id']}", f"showed entry {older['id']} after entry {newer['id']}", ids
    limit = int(call.query.get("limit", "50"))
    if len(shown) > limit or (call.answer["more_entries"] and len(shown) < limit):
        text = f"showed {len(shown)} entries for a limit of {limit}, more_entries {call.answer['more_entries']}"
        yield "audit", text, []


def _wrong_entries(call: Call, shown: Sequence[Mapping[str, Any]], known: Mapping[int, Entry]) -> Iterator[Fault]:
    for each in shown:
        entry, subject = known.get(each["id"]), f"audit entry {each['id']}"
        if entry is None:
            yield subject, f"showed an entry {each['id']} ({each['action']}) that the final trail does not have", []
            continue
        for column in ("actor", "action", "object", "request_id"):
            if each[column] != getattr(entry, column):
                text = f"showed {column} {each[column]!r}, and the trail has {getattr(entry, column)!r}"
                yield subject, text, [entry.id]
        recorded = {column: _without_usual_flavors(entry, getattr(entry, column)) for column in ("before", "after")}
        for column, row in recorded.items():
            if not _is_image(each[column], row):
                yield subject, f"showed another row {column} the change than the trail has", [entry.id]
        if entry.committed is not None and entry.committed > call.end + SLACK:
            by = (entry.committed - call.end) / 1e3
            yield subject, f"showed an entry {by:.1f} ms before it was committed", [entry.id]


def _without_usual_flavors(entry: Entry, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An image of the trail as the API shows it: without a column of flavors that says nothing in both images."""
    if row is None:
        return None
    usual = {"flavors": [], "flavors_after": [], "gpu_flavors": [], "flavor": "default"}
    images = [each for each in (entry.before, entry.after) if each is not None]
    silent = {key for key, value in usual.items() if all(each.get(key, value) == value for each in images)}
    return {key: value for key, value in row.items() if key not in silent}


def _is_image(shown: Mapping[str, Any] | None, recorded: Mapping[str, Any] | None) -> bool:
    """Whether an image of the API is that of the trail: times end in Z, and a subpool has one more number."""
    if shown is None or recorded is None:
        return shown is recorded
    texts = {
        key: f"{value.removesuffix('+00:00')}Z" if isinstance(value, str) and value.endswith("+00:00") else value
        for key, value in recorded.items()
    }
    return all(shown.get(key) == value for key, value in texts.items()) and shown.keys() - recorded.keys() <= {"quota"}


def _missing_entries(
    call: Call, shown: Sequence[Mapping[str, Any]], trail: Sequence[Entry], *, sees_all: bool
) -> Iterator[Fault]:
    """Without filters and an offset the page begins with the newest entry."""
    if call.query.keys() - {"limit"}:
        return
    ids = {each["id"] for each in shown}
    oldest = min(ids, default=0) if call.answer["more_entries"] else 0
    for entry in reversed(trail):
        if entry.id < oldest:
            return
        is_visible = sees_all or entry.actor == call.user
        if is_visible and entry.id not in ids and (entry.committed or float("-inf")) < call.begin - SLACK:
            text = f"left out entry {entry.id} ({entry.action} {entry.object}), which was committed before it began"
            yield f"audit entry {entry.id}", text, [entry.id]
