"""The answer of a dry run for people: before → after, affected workflows, violated rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from osmo_admin.cli.base.client_errors import REFUSED, ClientError, detail_location
from osmo_admin.cli.base.output import print_answer, print_text
from osmo_admin.cli.base.session import ClientSession, print_warning
from osmo_admin.cli.base.tables import Table, build_table, first_of, format_cell
from osmo_admin.cli.base.times import format_local_time
from osmo_admin.cli.text.pool_table import branch_prefix
from osmo_admin.cli.text.quota_tree_table import cohort_change_lines, debt_lines, number_term
from pools.domain.errors import Fault

ARROW = " → "
WORKFLOW_LISTS = (
    ("Would drain", "draining"),
    ("May be reclaimed", "may_be_reclaimed"),
    ("Becomes reclaimable", "becomes_reclaimable"),
    ("Could start", "could_start"),
    ("Could no longer start", "could_no_longer_start"),
)
NOT_A_DRY_RUN = "WARNING: the server did not confirm the dry run. See the last changes: osmo audit --limit 5."


def as_it_is(answer: Any) -> Any:
    """The summary of an effect that is shown as a whole."""
    return answer


def show_effect(session: ClientSession, answer: Any, summarize: Callable[[Any], Any] = as_it_is) -> None:
    """Print the effect; for people only its summary. A forbidden change ends with exit code 2, as the change
    itself would."""
    confirmed = isinstance(answer, dict) and answer.get("dry_run") is True

    def text() -> str:  # without the warnings, which follow any answer
        return effect_text({**summarize(answer), "warnings": []}) if confirmed else format_cell(answer)

    print_answer(session, answer, text)
    if not confirmed:
        print_warning(NOT_A_DRY_RUN)
    elif answer.get("violations"):
        raise typer.Exit(REFUSED)


def print_effect(answer: Any) -> None:
    """Print the effect before the question whether to do it. Raises :class:`ClientError` if it is forbidden."""
    if not isinstance(answer, dict) or answer.get("dry_run") is not True:
        raise ClientError("The server did not answer with a dry run, so its effect cannot be shown; see osmo audit.")
    if violations := answer.get("violations"):
        raise ClientError(" ".join(str(each.get("message")) for each in violations), details=violations)
    print_text(effect_text(answer).partition("\n")[2] or "Nothing else changes.")


def without_approval_needs(effect: Any) -> Any:
    """The effect of a change for which an approval is requested: the need of it is not a refusal."""
    if not isinstance(effect, dict):
        return effect
    violations = [each for each in effect.get("violations") or [] if each.get("code") != Fault.APPROVAL_NEEDED]
    return effect | {"violations": violations}


def requested_text(answer: Any) -> str | None:
    """The text for a change that was requested instead of made; None for any other answer."""
    if not isinstance(answer, dict) or "requested_by" not in answer:
        return None
    return (
        f"Nothing is changed yet. Request {answer['id']} waits for the approval of a second person until "
        f"{format_local_time(answer.get('expires_at'))}: osmo approval show {answer['id']}."
    )


def effect_text(answer: Mapping[str, Any]) -> str:
    """The whole effect as text."""
    before, after = answer.get("before"), answer.get("after")
    violations = answer.get("violations") or []
    parts = ["Dry run: the change would be refused." if violations else "Dry run: nothing was changed."]
    if is_pool_tree(before) or is_pool_tree(after):
        parts.append(str(pool_tree_change_table(before, after)))
        parts += field_lines(answer.get("changes") or [])
        parts += neighbour_lines(answer.get("neighbours") or [])
    elif isinstance(before, dict) and has_only_pool_trees(before):
        parts += [str(pool_tree_change_table(tree, (after or {}).get(name))) for name, tree in before.items()]
    elif has_quota_nodes(before) or has_quota_nodes(after):
        parts += field_lines(answer.get("changes") or [])
        parts += cohort_change_lines(before, after)
    elif after is None and violations:
        pass  # a refused configuration has no state afterwards, and nothing would change
    elif changed := change_lines(before, after):
        parts.append("\n".join(changed))
    parts += debt_lines(answer.get("debts") or [])
    parts += [f"WARNING: {text}" for text in answer.get("warnings") or []]
    for title, key in WORKFLOW_LISTS:
        if answer.get(key):
            parts.append(f"{title}: {format_cell(answer[key])}")
        if answer.get(f"{key}_elsewhere"):
            parts.append(f"{title} (other users): {format_cell(answer[f'{key}_elsewhere'])}")
    parts += [f"Refused: {detail_location(each)}{each.get('message')}" for each in violations]
    return "\n".join(parts)


def field_lines(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """`weight: 8 → 1`, one line for each field of the configuration that differs."""
    return [f"{each['path']}: {change_text(each['before'], each['after'])}" for each in changes]


def neighbour_lines(neighbours: Sequence[Mapping[str, Any]]) -> list[str]:
    """The nodes of the cohort whose numbers differ, one line for each node and resource."""
    return [
        f"{each['kind']} {each['name']} ({each['flavor']}/{each['resource']}): "
        + ", ".join(
            f"{number_term(name)} {change_text(number['before'], number['after'])}"
            for name, number in each["numbers"].items()
        )
        for each in neighbours
    ]


def is_pool_tree(value: Any) -> bool:
    """True for the list shape of a pool and its subpools."""
    return isinstance(value, dict) and "subpools" in value


def has_only_pool_trees(value: Mapping[str, Any]) -> bool:
    """True for the trees of several pools by name, without their configuration."""
    return bool(value) and all(is_pool_tree(tree) and "configs" not in tree for tree in value.values())


def has_quota_nodes(value: Any) -> bool:
    """True for a cohort with the nodes of its tree; a cluster, which has a type, has nodes of another kind."""
    return isinstance(value, dict) and "nodes" in value and "type" not in value


def pool_tree_change_table(before: Any, after: Any) -> Table:
    """The pool and its subpools, with quota and state before and after; below each its flavors of which the quota
    changes: the sums may stay."""
    old, new = before or {}, after or before or {}
    was = {row["name"]: row for row in old.get("subpools", [])}
    becomes = {row["name"]: row for row in new.get("subpools", [])}
    names = sorted({*was, *becomes})
    unallocated = change_text(old.get("unallocated"), new.get("unallocated"))
    total = change_text(old.get("quota"), new.get("quota"))
    rows: list[list[Any]] = [[new.get("pool") or old.get("pool"), "-", f"{unallocated} (Total: {total})"]]
    rows += _flavor_rows(str(rows[0][0]), old.get("shared"), new.get("shared"))
    for at, name in enumerate(names):
        # A subpool that exists on one side only is shown with `-` on the other side.
        left, right = was.get(name), becomes.get(name)
        state = change_text(*(row.get("subpool_state") if row else None for row in (left, right)))
        quota = change_text(*(row.get("quota") if row else None for row in (left, right)))
        label = branch_prefix(at, len(names)) + name
        rows += [[label, state, quota], *_flavor_rows(label, left, right)]
    return build_table(("Pool", "Subpool State", "GPU Quota"), rows)


def _flavor_rows(label: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[list[Any]]:
    was, becomes = ({row["flavor"]: row["quota"] for row in (side or {}).get("flavors", ())} for side in (old, new))
    return [
        [f"{label}, {flavor}", "-", change_text(was.get(flavor), becomes.get(flavor))]
        for flavor in was | becomes
        if was.get(flavor) != becomes.get(flavor)
    ]


def change_text(old: Any, new: Any) -> str:
    """`40 → 50`, or one value when both are the same."""
    return format_cell(new) if old == new else f"{format_cell(old)}{ARROW}{format_cell(new)}"


def change_lines(before: Any, after: Any, path: str = "") -> list[str]:
    """`resources.gpu.guarantee: 100 → 80`, one line for each value that differs."""
    if before == after:
        return []
    if None in (before, after):  # created or deleted: one line for each value
        before, after = (
            {} if side is None and isinstance(other, dict) else side
            for side, other in ((before, after), (after, before))
        )
    if isinstance(before, dict) and isinstance(after, dict):
        keys: Sequence[str] = [*before, *(key for key in after if key not in before)]
        return [
            line
            for key in keys
            for line in change_lines(before.get(key), after.get(key), f"{path}.{key}" if path else key)
        ]
    rows, changed = _by_name(before), _by_name(after)
    if rows and changed:
        same = [name for name in rows if name in changed]
        sides = (
            ("removed", [name for name in rows if name not in changed]),
            ("added", [name for name in changed if name not in rows]),
        )
        return [
            *(line for name in same for line in _row_lines(rows[name], changed[name], f"{path}.{name}")),
            *(f"{path}: {format_cell(first_of(names))} {verb}" for verb, names in sides if names),
        ]
    return [f"{path or 'value'}: {change_text(before, after)}"]


def _by_name(rows: Any) -> dict[str, Mapping[str, Any]] | None:
    """Rows by their names; None for anything else."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) and "name" in row for row in rows):
        return None
    found = {row["name"]: row for row in rows}
    return found if len(found) == len(rows) else None


def _row_lines(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> list[str]:
    """The values of a row that differ; of rows within it, how many do."""
    lines = []
    for key, old in before.items():
        new = after.get(key)
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and any(map(_is_row, old)):
            if count := sum(one != other for one, other in zip(old, new, strict=True)):
                lines.append(f"{path}.{key}: {count} of {len(old)} differ")
        elif old != new:
            lines.append(f"{path}.{key}: {change_text(old, new)}")
    return lines


def _is_row(value: Any) -> bool:
    return isinstance(value, dict)
