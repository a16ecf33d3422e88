"""The effect of a change to a pool's tree, from the two states of a dry run: each node before and after, and messages
to read before the confirmation.

The states are bodies of the API (design, A2); amounts are whole GPUs, -1 is unlimited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pools.domain.names import REMAINDER_LABEL
from pools.domain.quota.usage_bar import UsageBar
from pools.domain.subpool_lifecycle import SubpoolState
from pools.domain.values.amounts import NO_LIMIT, gpu_words, gpus_text
from pools.domain.values.counting import counted

TreeSnapshot = Mapping[str, Any]
NOTHING: TreeSnapshot = {}


@dataclass(frozen=True, slots=True)
class NodeEffect:
    """One node before and after; None where it does not exist. `used` are the GPUs of running HIGH and NORMAL work, and
    `bar` is the bar of pages after the change. `flavor`: the node as far as one flavor is concerned; `parts` are the
    flavors that count parts of shared GPUs."""

    label: str
    kind: str
    quota_before: int | None
    quota_after: int | None
    state_before: str
    state_after: str
    available_before: int | None
    available_after: int | None
    used: int
    bar: UsageBar | None = None
    flavor: str = ""
    parts: Collection[str] = ()

    @property
    def shown_label(self) -> str:
        """The label, of a flavor with its name."""
        return f"{self.label}, {self.flavor}" if self.flavor else self.label

    @property
    def is_changed(self) -> bool:
        """Whether quota or state change."""
        return (self.quota_before, self.state_before) != (self.quota_after, self.state_after)


def node_effects(
    before: TreeSnapshot | None,
    after: TreeSnapshot | None,
    bars: Mapping[str, UsageBar] | None = None,
    parts: Collection[str] = (),
) -> tuple[NodeEffect, ...]:
    """The pool, its remainder, and every subpool of either state by name, with the bars of these labels; after each of
    them its flavors of which the quota changes. `parts` are the flavors that count parts of shared GPUs."""
    old, new = before or NOTHING, after or NOTHING
    whole = NodeEffect(
        label=str(new.get("pool") or old.get("pool")),
        kind="pool",
        quota_before=old.get("quota"),
        quota_after=new.get("quota"),
        state_before="",
        state_after="",
        available_before=_pool_available(old),
        available_after=_pool_available(new),
        used=_pool_used(new or old),
    )
    nodes = [whole, _node(REMAINDER_LABEL, "shared", old.get("shared"), new.get("shared"))]
    olds = {part["subpool_name"]: part for part in old.get("subpools", ())}
    news = {part["subpool_name"]: part for part in new.get("subpools", ())}
    nodes += [_node(name, "subpool", olds.get(name), news.get(name)) for name in sorted(olds | news)]
    states = [
        (old, new),
        (old.get("shared"), new.get("shared")),
        *((olds.get(n), news.get(n)) for n in sorted(olds | news)),
    ]
    found: list[NodeEffect] = []
    for node, (former, later) in zip(nodes, states, strict=True):
        whole = replace(node, bar=(bars or {}).get(node.label), parts=parts)
        found += [whole, *_flavor_nodes(whole, former, later)]
    return tuple(found)


def _flavor_nodes(node: NodeEffect, old: TreeSnapshot | None, new: TreeSnapshot | None) -> Iterator[NodeEffect]:
    olds, news = ({row["flavor"]: row for row in (state or NOTHING).get("flavors", ())} for state in (old, new))
    for flavor in olds | news:
        before, after = olds.get(flavor, NOTHING), news.get(flavor, NOTHING)
        found = replace(
            node,
            quota_before=before.get("quota"),
            quota_after=after.get("quota"),
            state_before=node.state_after,
            available_before=before.get("available"),
            available_after=after.get("available"),
            used=(after or before).get("used", 0),
            flavor=flavor,
            bar=None,
        )
        if found.is_changed:
            yield found


def _node(label: str, kind: str, old: TreeSnapshot | None, new: TreeSnapshot | None) -> NodeEffect:
    old, new = old or NOTHING, new or NOTHING
    gone = str(SubpoolState.ARCHIVED) if kind == "subpool" else ""
    return NodeEffect(
        label=label,
        kind=kind,
        quota_before=old.get("quota"),
        quota_after=new.get("quota"),
        state_before=old.get("subpool_state", ""),
        state_after=new.get("subpool_state", gone),
        available_before=old.get("available"),
        available_after=new.get("available"),
        used=(new or old).get("used", 0),
    )


def _pool_used(state: TreeSnapshot) -> int:
    shared: TreeSnapshot = state.get("shared", NOTHING)
    return int(shared.get("used", 0)) + sum(int(part["used"]) for part in state.get("subpools", ()))


def _pool_available(state: TreeSnapshot) -> int | None:
    quota: int | None = state.get("quota")
    return quota if quota is None or quota == NO_LIMIT else quota - _pool_used(state)


def cancelled_text(count: int) -> str:
    """What a deletion that cancels waiting work has cancelled."""
    if not count:
        return "No workflow was waiting, so none was cancelled."
    return f"{counted(count, 'workflow that had not started was', 'workflows that had not started were')} cancelled."


def consequence_messages(nodes: tuple[NodeEffect, ...], *, draining: int = 0, cancelled: int = 0) -> tuple[str, ...]:
    """The consequences of the change. `draining` counts workflows that keep running on a deleted subpool, `cancelled`
    those that are cancelled with it."""
    messages: list[str] = []
    for node in nodes:
        messages += _node_messages(node, nodes, draining, cancelled)
    return tuple(messages)


def _node_messages(node: NodeEffect, nodes: tuple[NodeEffect, ...], draining: int, cancelled: int) -> list[str]:
    pool = nodes[0].label
    name = f"{pool}--{node.label}" if node.kind == "subpool" else node.label
    if (
        any(each.flavor and each.label == node.label for each in nodes)
        and not node.flavor
        and (node.state_after == node.state_before)
    ):
        return []  # its flavors say it
    if node.kind == "subpool" and node.state_after != node.state_before:
        kinds = [each for each in nodes if each.flavor and each.label == node.label]
        return _state_messages(node, kinds, name, draining, cancelled)
    if node.available_after is None or node.quota_before == node.quota_after:
        return []
    if node.available_after >= 0 or node.quota_after == NO_LIMIT:
        return []
    over = -node.available_after
    whose = f"The shared remainder of {pool}" if node.kind == "shared" else name
    messages = f"{whose} keeps {_gpus(node, node.used)} of HIGH and NORMAL work on a quota of {node.quota_after}: "
    drain = f"nothing is stopped, {_gpus(node, over)} drain as that work ends"
    return [f"{messages}{drain}, and new work there waits until then."]


def _state_messages(
    node: NodeEffect, kinds: Sequence[NodeEffect], name: str, draining: int, cancelled: int
) -> list[str]:
    if node.state_after == SubpoolState.ACTIVE:
        quota = gpus_text(node.quota_after or 0, {each.flavor: each.quota_after or 0 for each in kinds}, node.parts)
        return [f"The quota of {name} is {quota} from now on."]
    messages = []
    if cancelled:
        have, are = ("has", "is") if cancelled == 1 else ("have", "are")
        messages.append(f"{counted(cancelled, 'workflow')} that {have} not started {are} cancelled.")
    if node.state_after == SubpoolState.DELETING:
        messages.append(
            f"{counted(draining, 'workflow')} on {name} {'keeps' if draining == 1 else 'keep'} running. "
            "The subpool accepts no new work and cannot be changed; it is archived when the last one has ended."
        )
    else:
        other = "other " if cancelled else ""
        messages.append(f"{name} has no {other}active work, so it is archived at once. It can be recreated later.")
    return messages


def _gpus(node: NodeEffect, amount: int) -> str:
    return counted(amount, *gpu_words(node.flavor, node.parts))
