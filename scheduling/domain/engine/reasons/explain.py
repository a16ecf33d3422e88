"""Why a gang waits: one reason, which names its first blocker, and the remedies that would unblock it.

The checks come in this order: the state of its queue, missing pods, requests that never fit, quotas from the leaf
upward (for non-preemptible work), limits from the leaf upward, the cohort tree, the nodes. `Reason.blockers` has every
blocker of the start; the reason names the first one, and `remedies` has a remedy for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pools.domain.values.amounts import Amount, Number, amount_text
from scheduling.domain.engine.reasons.blockers import Blocker, UnlentQuota, limit_text
from scheduling.domain.engine.reasons.lending import find_lending_rises
from scheduling.domain.engine.reasons.node_bars import MAX_NAMED_NODES, NamedBar, NodeBars, nodes_text
from scheduling.domain.engine.reasons.remedies import Remedies, Remedy
from scheduling.domain.engine.reasons.shortage import ShortageFinder
from scheduling.domain.engine.rules.phases import Phases
from scheduling.domain.engine.rules.reservation import StartPolicy
from scheduling.domain.engine.rules.world import World
from scheduling.domain.engine.state.nodes import Request
from scheduling.domain.engine.state.records import GangState, QueueState, sum_requests
from scheduling.domain.engine.steps import StepLog
from scheduling.domain.reason_codes import ReasonCode

_SHARE_NOTE = " It may not reclaim LOW work"

MAX_HOLDERS = 16
"""The most gangs that are looked for of those that hold back another one."""


@dataclass(frozen=True, slots=True)
class Reason:
    """`queue` is the blocking node of the tree; `limit` names its number that blocks. `needs_all_remedies`: the gang
    starts only with all remedies together; otherwise one of them is enough. Of a gang that may use several flavors
    the message names each, and the other fields are those of the nearest."""

    code: str
    message: str
    queue: str | None
    limit: str | None = None
    requested: Mapping[str, Number] | None = None
    free: Mapping[str, Number] | None = None
    missing: Mapping[str, Number] | None = None
    remedies: tuple[Remedy, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    needs_all_remedies: bool = True

    @property
    def unblock(self) -> tuple[str, ...]:
        """The messages of all remedies, for a reader who may know all names."""
        return tuple(remedy.message() for remedy in self.remedies)

    @property
    def is_permanent(self) -> bool:
        """Whether the gang could not start even if all other work ended."""
        return self.code == ReasonCode.NEVER_FITS


class Explainer:
    """Reasons in one state; interchangeable gangs are explained once, and each choice of a gang alone."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shortages = ShortageFinder(world)
        self._remedies = Remedies(world)
        self._phases: Phases | None = None
        self._lending: dict[tuple[int, int, Number], tuple[tuple[UnlentQuota, ...], Amount]] = {}

    def explain_all(self) -> dict[GangState, Reason]:
        """The reason of every gang that neither runs nor has ended, of each of its choices."""
        found = {}
        for gang in (*self._world.orphans, *self._world.held):
            if any(gang.waiting) and not gang.is_running:
                found[gang] = self.explain(gang)
        for queue in self._world.queues:
            for group in queue.waiting.values():
                reason = None
                for gang in group:
                    if gang.is_running:
                        break
                    reason = reason or self.explain(gang)
                    found[gang] = reason
        return found

    def explain(self, gang: GangState) -> Reason:
        """The reason why this gang does not start now."""
        queue = gang.queue
        if queue is None:
            message = f"The queue '{gang.fact.queue}' does not exist."
            return Reason(ReasonCode.NO_SUCH_QUEUE, message, gang.fact.queue, remedies=(Remedy("Create the queue"),))
        closed = self._queue_reason(queue) or _incomplete_reason(gang, queue) or _gang_hold_reason(gang, queue)
        if closed is not None:
            return closed
        tasks = gang.explaining_tasks()
        request = sum_requests([gang.requests[i] for i in tasks])
        blockers = [
            *self._over_quota(gang, queue, request),
            *self._over_limit(queue, request),
            *self._over_tree(queue, request),
            *self._nodes(gang, tasks),
        ]
        blockers = self._one_for_each_setting(blockers)
        never = next((blocker for blocker in blockers if blocker.is_permanent), None)
        # Nobody takes a quota that is full from HIGH and NORMAL work, with reservations or without.
        may_be_held = never is None and all(blocker.code != ReasonCode.OVER_QUOTA for blocker in blockers)
        held_back = self._held_back(gang, queue, fits=not blockers) if may_be_held else None
        if held_back is not None:
            return held_back
        if not blockers:
            message = "Nothing blocks it; it is about to start."
            return Reason(ReasonCode.NEXT_PASS, message, queue.fact.name)
        first = never or blockers[0]
        return Reason(
            code=ReasonCode.NEVER_FITS if never else first.code,
            message=self._message(first) + self._fair_share_note(queue, request, blockers),
            queue=first.node or queue.fact.name,
            limit=first.limit,
            requested=first.requested,
            free=first.free,
            missing=first.missing,
            remedies=tuple(remedy for blocker in blockers for remedy in self._remedies.find(blocker, gang)),
            blockers=tuple(blockers),
        )

    def with_lines(
        self, gang: GangState, reason: Reason, lines: Sequence[tuple[Blocker, Sequence[str]]], *, needs_all: bool
    ) -> Reason:
        """The reason with the lines of these blockers only, each with the gangs whose place the start then takes. With
        `needs_all` they are needed together; otherwise each is enough, and a blocker of several lines is left out if
        another one has a single line."""
        queue = gang.queue
        chosen = [([*self._remedies.find(blocker, gang)], blocker, tuple(takes)) for blocker, takes in lines]
        if not needs_all:
            chosen = [each for each in chosen if len(each[0]) == 1] or chosen[:1]
        blockers = [blocker for _remedies, blocker, _takes in chosen]
        remedies = [[*found[:-1], replace(found[-1], takes=takes)] for found, _blocker, takes in chosen]
        request = sum_requests([gang.requests[i] for i in gang.explaining_tasks()])
        first = blockers[0]
        return replace(
            reason,
            code=first.code,
            message=self._message(first) + ("" if queue is None else self._fair_share_note(queue, request, blockers)),
            queue=first.node or gang.fact.queue,
            limit=first.limit,
            requested=first.requested,
            free=first.free,
            missing=first.missing,
            remedies=tuple(remedy for found in remedies for remedy in found),
            blockers=tuple(blockers),
            needs_all_remedies=needs_all or len(chosen) == 1,
        )

    def with_competition(self, gang: GangState, reason: Reason) -> Reason:
        """The reason of a gang that would reclaim or preempt what it lacks if no other work waited."""
        if _SHARE_NOTE in reason.message or gang.queue is None:
            return reason
        request = sum_requests([gang.requests[i] for i in gang.explaining_tasks()])
        note = (
            self._fair_share_note(gang.queue, request, []) or " It would take the place of other work if less waited."
        )
        return replace(reason, message=reason.message + note)

    def _queue_reason(self, queue: QueueState) -> Reason | None:
        name = queue.fact.name
        if queue.children:
            message = f"The queue '{name}' has queues below it, so it runs nothing itself."
            return Reason(
                ReasonCode.QUEUE_HAS_CHILDREN, message, name, remedies=(Remedy("Submit to one of the queues below it"),)
            )
        if queue.is_cyclic:
            cycle = self._world.tree.cycle_of(name)
            path = f": {' → '.join([*cycle, cycle[0]])}" if cycle else ""
            message = f"The parents of '{name}' form a cycle{path}; nothing starts there until one of them changes."
            return Reason(ReasonCode.CYCLE, message, name, remedies=(Remedy(ReasonCode.CYCLE.remedy),))
        if queue.path[-1].fact.is_external:
            message = f"'{name}' runs its work on another cluster; only the free capacity there decides."
            return Reason(
                ReasonCode.ELSEWHERE, message, name, remedies=(Remedy("That cluster has enough free capacity"),)
            )
        for above in queue.path:
            hold = above.fact.hold
            if hold is not None:
                remedies = (Remedy(hold.unblock),) if hold.unblock else ()
                return Reason(hold.code, hold.message, above.fact.name, remedies=remedies)
        return None

    def _held_back(self, gang: GangState, queue: QueueState, *, fits: bool) -> Reason | None:
        """The reason of a gang that would start without reservations. `fits`: without moves and evictions too."""
        policy = self._world.policy
        holders = [] if policy is None else self._holders(policy, gang, queue)
        if policy is None or not holders:
            return None
        could = "It would fit now" if fits else "It could start now in the place of other work"
        text, whose = _holders_text(len(holders))
        remedies = [Remedy(text, tuple(holder.fact.name for holder in holders))]
        ends = [policy.backfill_until(holder) for holder in holders]
        times = [end for end in ends if end is not None]
        if len(times) == len(ends) and min(times) > policy.now:
            seconds = amount_text(min(times) - policy.now)
            then = "that gang starts" if len(holders) == 1 else "they start"
            remedies.append(Remedy(f"With a time limit of at most {seconds} s it would end before {then}"))
        return Reason(
            ReasonCode.HELD_BACK, f"{could}, but this capacity is reserved for {whose}.", queue.fact.name,
            "reservation", remedies=tuple(remedies), needs_all_remedies=False,
        )  # fmt: skip

    def _holders(self, policy: StartPolicy, gang: GangState, queue: QueueState) -> list[GangState]:
        """The gangs that have to go before it would start, oldest reservation first: those with the reservations, and
        those that would have the next ones. Each of them is needed. Empty if it would start as it is, or would not
        start without any reservation; at most `MAX_HOLDERS`."""
        with policy.nothing_reserved():
            if not self._would_start(gang, queue):
                return []
        found: list[GangState] = []
        while len(found) < MAX_HOLDERS:
            with policy.without(found):
                if self._would_start(gang, queue):
                    break
                more = policy.binding_gangs(gang)
            if not more:
                break
            found += more
        else:
            return found[:MAX_HOLDERS]
        for each in reversed(found) if len(found) > 1 else ():
            rest = [other for other in found if other is not each]
            with policy.without(rest):
                if self._would_start(gang, queue):
                    found = rest
        return found

    def _would_start(self, gang: GangState, queue: QueueState) -> bool:
        if self._phases is None:
            self._phases = Phases(self._world, StepLog(self._world))
        return self._phases.would_start(gang, queue)

    def _one_for_each_setting(self, blockers: list[Blocker]) -> list[Blocker]:
        """The blockers without borrowing limits that follow from a limit that blocks, too."""
        limited = {blocker.node for blocker in blockers if blocker.code == ReasonCode.OVER_LIMIT}

        def follows(blocker: Blocker) -> bool:
            queue = self._world.queue_of.get(blocker.node or "")
            is_derived = queue is not None and queue.fact.borrows_by_limit
            return is_derived and blocker.limit == "borrowing_limit" and blocker.node in limited

        return [blocker for blocker in blockers if not follows(blocker)]

    def _unlent(self, r: int, queue: QueueState, missing: Number) -> tuple[tuple[UnlentQuota, ...], Amount]:
        """The lending limits that keep idle quota from the queue, and the part of the missing amount that they would
        give; the same for each queue of a leaf and amount."""
        key = r, queue.column, missing
        known = self._lending.get(key)
        if known is None:
            column, names = self._world.columns[r], self._world.tree.names

            def text(amount: Amount) -> str:
                return self._world.amounts_text({self._world.keys[r]: amount})

            rises, given = find_lending_rises(column, queue.column, missing)
            unlent = tuple(
                UnlentQuota(names[rise.node], text(rise.idle) if rise.idle else "", text(rise.amount)) for rise in rises
            )
            known = self._lending[key] = unlent, given
        return known

    def _fair_share_note(self, queue: QueueState, request: Request, blockers: list[Blocker]) -> str:
        """A sentence about the fair share of a gang that only the nodes block while preemptible work of other leaves
        runs: inside the share it would reclaim."""
        if any(blocker.limit != "nodes" or blocker.is_permanent for blocker in blockers):
            return ""
        over = [(r, n) for r, n in request if queue.alloc[r] + n > queue.fair[r]]
        if not over or not any(other.running for other in self._world.queues if other is not queue):
            return ""
        r, amount = over[0]
        key = self._world.keys[r]
        share, wanted = (self._world.amounts_text({key: each}) for each in (queue.fair[r], queue.alloc[r] + amount))
        return f"{_SHARE_NOTE}: {wanted} would be over the fair share of {queue.fact.name}, {share}."

    def _over_quota(self, gang: GangState, queue: QueueState, request: Request) -> Iterator[Blocker]:
        if gang.preemptible:
            return
        for above in queue.path:
            over = [(r, n) for r, n in request if above.non_preemptible[r] + n > above.quota[r]]
            if over:
                yield self._blocker(ReasonCode.OVER_QUOTA, above, "quota", over, above.non_preemptible, above.quota)

    def _over_limit(self, queue: QueueState, request: Request) -> Iterator[Blocker]:
        for above in queue.path:
            over = [(r, n) for r, n in request if above.alloc[r] + n > above.limit[r]]
            if over:
                yield self._blocker(ReasonCode.OVER_LIMIT, above, "limit", over, above.alloc, above.limit)

    def _blocker(
        self, code: str, queue: QueueState, limit: str, over: list[tuple[int, Number]], held: list[Number],
        most: list[Amount],
    ) -> Blocker:  # fmt: skip
        keys = self._world.keys
        # A limit that blocks is finite, so these values are numbers.
        bound: dict[int, Number] = {r: most[r] for r, _n in over}  # type: ignore[misc]
        later = queue.fact.later_quota if limit == "quota" else {}
        infeasible = [(r, n) for r, n in over if n > bound[r] and n > later.get(keys[r], 0)]
        # Other missing amounts would not help.
        over = infeasible or over
        return Blocker(
            code,
            queue.fact.name,
            limit,
            requested={keys[r]: n for r, n in over},
            free={keys[r]: max(0, bound[r] - held[r]) for r, _n in over},
            missing={keys[r]: held[r] + n - bound[r] for r, n in over},
            bound=bound[over[0][0]],
            is_permanent=bool(infeasible),
        )

    def _over_tree(self, queue: QueueState, request: Request) -> Iterator[Blocker]:
        if not queue.has_cohort_above:
            return
        world, keys, names = self._world, self._world.keys, self._world.tree.names
        for r, amount in request:
            column = world.columns[r]
            free = column.available(queue.column)
            if amount <= free:
                continue
            short: list[tuple[int, str, Amount]] = []
            x, carried = queue.column, amount
            while x >= 0 and carried > 0:
                root = column.parents[x] < 0
                allowed = 0 if root else column.borrowing[x]
                after = column.balance(x) - carried + allowed
                if after < 0:
                    short.append((x, "quota" if root else "borrowing_limit", -after))
                # Only the part that does not fit into the local quota is borrowed through the parent.
                free_local = max(0, column.local[x] - column.usage[x])
                carried = 0 if free_local >= carried else carried - free_local  # type: ignore[assignment]
                x = column.parents[x]
            if not short:
                node, limit = column.binding_limit(queue.column)
                short = [(node, limit, amount - free)]
            never = amount > column.potential(queue.column)
            for node, limit, missing in short:
                lacking: Number = missing  # type: ignore[assignment]
                code = ReasonCode.NOTHING_TO_BORROW if limit == "quota" else ReasonCode.OVER_BORROWING_LIMIT
                unlent: tuple[UnlentQuota, ...] = ()
                lendable: Amount = 0
                if limit == "quota" and not never:
                    unlent, lendable = self._unlent(r, queue, lacking)
                    unlent = unlent if lendable > 0 else ()
                code = ReasonCode.NOT_LENT if unlent else code
                most = column.subtree[node] if limit == "quota" else column.borrowing[node]
                yield Blocker(
                    code, names[node], limit,
                    {keys[r]: amount}, {keys[r]: max(0, amount - lacking)}, {keys[r]: lacking},
                    bound=most, used=max(0, -column.balance(node)), is_permanent=never, unlent=unlent,
                    lendable=lendable,
                )  # fmt: skip

    def _nodes(self, gang: GangState, tasks: Sequence[int]) -> Iterator[Blocker]:
        short = self._shortages.find(gang, tasks)
        if short is None:
            return
        amounts = self._world.named_amounts
        code = ReasonCode.FRAGMENTED if short.is_fragmented else ReasonCode.NO_ROOM
        yield Blocker(
            code, None, "nodes", amounts(short.requested), amounts(short.free), amounts(short.missing),
            is_permanent=short.is_permanent, node_shortages=short.node_shortages,
            largest=(amounts(short.largest[0]), short.largest[1]), barred=short.barred,
            size=short.size[0].format(self._world.amounts_text(sizes := amounts(short.size[1]), relevant=sizes)),
        )  # fmt: skip

    def _message(self, blocker: Blocker) -> str:
        world, lacking = self._world, blocker.missing
        request, free, missing = (
            world.amounts_text(part, relevant=lacking) for part in (blocker.requested, blocker.free, blocker.missing)
        )
        bound, node, limit = amount_text(blocker.bound), blocker.node, limit_text(blocker.limit)
        if blocker.limit == "nodes":
            if blocker.is_permanent:
                size = f" {blocker.size}" if blocker.size else ""
                if barred := _bars_text(blocker.barred, "it would fit"):
                    return f"It asks for {request}; {barred}.{size}"
                return f"It asks for {request}; the nodes could not hold that even if they were empty.{size}"
            now = _bars_text(blocker.barred, "it would fit now")
            barred = f" Besides, {now}." if now else ""
            places = ", ".join(short.node for short in blocker.node_shortages[:MAX_NAMED_NODES])
            if blocker.code == ReasonCode.FRAGMENTED:
                piece, where = world.amounts_text(blocker.largest[0]), nodes_text(blocker.largest[1])
                largest = f" (largest: {piece} on {where})" if where else ""
                why = f"as much is free, but not together: {missing} missing on {places}{largest}."
                return f"It asks for {request}; {why}{barred}"
            return f"It asks for {request}; the nodes have capacity for {free}: {missing} missing on {places}.{barred}"
        if blocker.is_permanent:
            return f"It asks for {request}, more than the {limit} of {node} ({bound}) could ever give."
        if blocker.code == ReasonCode.NOT_LENT:
            rest = "more is idle, but its owners do not lend it"
            return (
                f"It asks for {request}; everything under {node} leaves {free} of {bound}: {missing} missing; {rest}."
            )
        if blocker.limit == "quota" and blocker.code == ReasonCode.NOTHING_TO_BORROW:
            return f"It asks for {request}; everything under {node} leaves {free} of {bound}: {missing} missing."
        if blocker.limit == "borrowing_limit" and blocker.used >= blocker.bound:
            return f"It asks for {request}; borrowing limit of {node} reached: {amount_text(blocker.used)} of {bound}."
        over = {key: lack - blocker.requested[key] for key, lack in lacking.items() if lack > blocker.requested[key]}
        given = f"is exceeded by {world.amounts_text(over)}" if over else f"leaves {free}"
        return f"It asks for {request}; the {limit} of {node} ({bound}) {given}: {missing} missing."


def _holders_text(count: int) -> tuple[str, str]:
    """The remedy for a gang that `count` others hold back, and for whom capacity is reserved."""
    if count == 1:
        return "The gang with the reservation starts, or is cancelled", "a gang that has waited longer"
    if count == MAX_HOLDERS:
        text = "The gangs with the reservations, and those after them that would have the next ones"
        return f"{text}, start or are cancelled", "many gangs that have waited longer"
    each = "both" if count == 2 else f"all {count}"
    text = f"The gangs with the reservations or with the next ones, {each} of them, start or are cancelled"
    return text, f"{count} gangs that have waited longer"


def _bars_text(barred: NodeBars, outcome: str) -> str:
    """The causes that keep a gang from nodes, and without which it has the outcome; empty without causes."""
    if not barred.bars:
        return ""
    parts = [_bar_text(bar) for bar in barred.bars]
    if len(parts) == 1:
        return f"{parts[0]}, where {outcome}" if barred.bars[0].nodes else f"{parts[0]}; without that {outcome}"
    condition = f"only without all {len(parts)} of these" if barred.needs_all else "without one of these alone"
    return f"{', '.join(parts[:-1])} and {parts[-1]}; {condition} {outcome}"


def _bar_text(bar: NamedBar) -> str:
    if not bar.together:
        return f"by {bar.cause} it may not use {nodes_text(bar.nodes)}"
    values = "no node has that label" if not bar.domains else f"none of its {bar.domains} values has enough"
    values = "its only value has not enough" if bar.domains == 1 else values
    return f"by {bar.cause} {bar.together} tasks need nodes with one value, and {values}"


def _gang_hold_reason(gang: GangState, queue: QueueState) -> Reason | None:
    hold = gang.fact.hold
    if hold is None:
        return None
    remedies = (Remedy(hold.unblock),) if hold.unblock else ()
    return Reason(hold.code, hold.message, hold.node or queue.fact.name, hold.limit or None, remedies=remedies)


def _incomplete_reason(gang: GangState, queue: QueueState) -> Reason | None:
    if not gang.is_complete:
        message = "The gang has fewer tasks than its minimum asks for, so it can never start."
    elif gang.is_satisfied and not gang.tree.is_single_leaf and gang.cheapest_tasks() is None:
        # Its minimum is 0.
        message = "Each group of the gang where a task waits has fewer tasks than its minimum asks for."
    else:
        return None
    return Reason(
        ReasonCode.NOT_READY,
        message,
        queue.fact.name,
        remedies=(Remedy("Add the missing tasks, or lower the minimum"),),
    )
