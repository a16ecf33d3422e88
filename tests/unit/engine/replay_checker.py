"""A second implementation of the rules, for properties: it replays the steps of a run with plain sums and without
indexes, and reports each step that broke a rule of design, K2, K4, or one of our own."""

from __future__ import annotations

from fractions import Fraction

from pools.domain.quota.tree import NodeQuota, QuotaNode, QuotaTree
from pools.domain.values.amounts import UNLIMITED
from scheduling.domain.engine.rules.fair_share import FairShareInput, divide_fair_shares
from tests.unit.engine.sample_clusters import KEYS


class ReplayChecker:
    """The usage of every queue, step after step. Amounts are lists, one number for each of `KEYS`."""

    def __init__(self, facts):
        self.facts = facts
        self.queues = {queue.name: queue for queue in facts.queues}
        self.gangs = {gang.name: gang for gang in facts.gangs}
        self.children = {name: [q.name for q in facts.queues if q.parent == name] for name in self.queues}
        self.running = {g.name: {t.name for t in g.tasks if t.state == "running"} for g in facts.gangs}
        self.fair = self._fair_shares()
        self.faults = []

    # -- sums --------------------------------------------------------------------------------------------------------

    def path(self, name):
        """The queue and all queues above it."""
        while name in self.queues:
            yield name
            name = self.queues[name].parent

    def above(self, name):
        """The cohorts above the top queue of a queue."""
        cohorts = {cohort.name: cohort for cohort in self.facts.cohorts}
        name = self.queues[list(self.path(name))[-1]].parent
        while name in cohorts:
            yield name
            name = cohorts[name].parent

    def size(self, gang, names):
        tasks = [task for task in self.gangs[gang].tasks if task.name in names]
        return [sum(task.request.get(key, 0) for task in tasks) for key in KEYS]

    def held(self, name, *, fixed_only=False):
        """The usage of a queue and all below it; with `fixed_only` its non-preemptible part."""
        sizes = [
            self.size(gang, names)
            for gang, names in self.running.items()
            if name in self.path(self.gangs[gang].queue) and not (fixed_only and self.gangs[gang].preemptible)
        ]
        return [sum(column) for column in zip(*sizes, strict=True)] or [0] * len(KEYS)

    def quota(self, name):
        own = self.queues[name].quota
        if own is None:
            return [sum(column) for column in zip(*map(self.quota, self.children[name]), strict=True)] or [0] * len(
                KEYS
            )
        return [own.get(key, 0) for key in KEYS]

    def limit(self, name):
        return [self.queues[name].limit.get(key, UNLIMITED) for key in KEYS]

    def allocatable(self, name):
        return [
            limit if quota == UNLIMITED else min(limit, max(quota, fair))
            for limit, quota, fair in zip(self.limit(name), self.quota(name), self.fair[name], strict=True)
        ]

    def _fair_shares(self):
        found = {name: [] for name in self.queues}

        def wanted(name, r):
            below = [g for g in self.facts.gangs if name in self.path(g.queue)]
            return sum(task.request.get(KEYS[r], 0) for g in below for task in g.tasks)

        def level(names, r, whole):
            claims = [
                FairShareInput(
                    name, self.quota(name)[r], self.limit(name)[r], wanted(name, r),
                    self.queues[name].weight, self.queues[name].priority, self.queues[name].created,
                )
                for name in names
            ]  # fmt: skip
            for name, share in zip(names, divide_fair_shares(whole, claims), strict=True):
                found[name].append(share)
                level(self.children[name], r, share)

        tops = [name for name, queue in self.queues.items() if queue.parent not in self.queues]
        for r, key in enumerate(KEYS):
            level(tops, r, sum(node.resources.get(key, 0) for node in self.facts.nodes))
        return found

    def tree(self):
        """Cohorts and queues with their present usage."""

        def own(node, *, leaf):
            quotas = {
                key: NodeQuota(
                    (node.quota or {}).get(key, 0) if leaf else 0,
                    node.borrowing_limit.get(key, UNLIMITED),
                    node.lending_limit.get(key, UNLIMITED),
                )
                for key in KEYS
            }
            return QuotaNode(node.name, node.parent, quotas, node.weight)

        nodes = [own(cohort, leaf=True) for cohort in self.facts.cohorts]
        nodes += [own(queue, leaf=not self.children[queue.name]) for queue in self.facts.queues]
        leaves = [name for name in self.queues if not self.children[name]]
        return QuotaTree(nodes, {name: dict(zip(KEYS, self.held(name), strict=True)) for name in leaves})

    # -- steps -------------------------------------------------------------------------------------------------------

    def replay(self, steps):
        """Replay all steps; the broken rules as messages."""
        victims = []
        for step in steps:
            if step.action == "start":
                self._start(step, victims)
                victims = []
            elif step.action == "give_up":
                self.running[step.gang] -= set(step.tasks)
            else:
                victims.append(step)
        if victims:
            self._fault(victims[0], "serves no gang that started")
        return self.faults

    def _fault(self, step, what):
        self.faults.append(f"{step.message} {what}")

    def _start(self, step, victims):
        for before in victims:
            self._victim(before, step)
        lost = [before for before in victims if before.action != "move"]
        reclaims = [before for before in lost if before.action == "reclaim"]
        ask = self.size(step.gang, step.tasks)
        leaf = self.gangs[step.gang].queue
        if reclaims:
            if any(have + n > fair for have, n, fair in zip(self.held(leaf), ask, self.fair[leaf], strict=True)):
                self._fault(step, "is above the fair share of its leaf, and reclaims")
            self._taken_one_by_one(lost, leaf, ask)
        for before in lost:
            self.running[before.gang] -= set(before.tasks)
        self._gates(step, leaf, ask)
        self.running[step.gang] |= set(step.tasks)
        if reclaims:
            self._stays_fair(step, leaf, ask, reclaims)

    def _victim(self, before, step):
        victim, other = self.gangs[before.gang], self.gangs[step.gang]
        if before.beneficiary != step.gang:
            self._fault(before, f"and then {step.gang} starts")
        if not victim.preemptible:
            self._fault(before, "but it cannot be preempted")
        if before.action == "preempt" and not (victim.queue == other.queue and victim.priority < other.priority):
            self._fault(before, "but it does not have a lower priority in the same leaf")
        if before.action == "reclaim" and victim.queue == other.queue:
            self._fault(before, "but it is of the same leaf")

    def _taken_one_by_one(self, lost, leaf, ask):
        was = {name: set(names) for name, names in self.running.items()}
        for step in lost:
            theirs = self.gangs[step.gang].queue
            mine, other = self._where_they_part(leaf, theirs)
            quota, held = self.quota(other), self.held(other)
            over_share = any(have > most for have, most in zip(held, self.allocatable(other), strict=True))
            after = [have + n for have, n in zip(self.held(mine), ask, strict=True)]
            inside = all(have <= most for have, most in zip(after, self.quota(mine), strict=True))
            guaranteed = inside and any(have > most for have, most in zip(held, quota, strict=True))
            if not (over_share or guaranteed):
                self._fault(step, f"but {other} is neither above its share nor a borrower of {mine}")
            for name in self.path(theirs):
                self._within(step, name, ask, guaranteed=guaranteed)
                if name == other:
                    break
            self._cohorts_between(step, leaf, theirs, ask)
            self.running[step.gang] -= set(step.tasks)
        self.running = was

    def _within(self, step, name, ask, *, guaranteed):
        requested = [r for r, n in enumerate(ask) if n]
        held, quota, size = self.held(name), self.quota(name), self.size(step.gang, step.tasks)
        if not any(held[r] > quota[r] for r in requested):
            self._fault(step, f"but {name} is within its quota")
        if not guaranteed and any(held[r] > quota[r] > held[r] - size[r] for r in requested):
            self._fault(step, f"which pushes {name} below its quota, for a share of the surplus alone")

    def _where_they_part(self, leaf, theirs):
        ours, others = [*self.path(leaf)][::-1], [*self.path(theirs)][::-1]
        return next((a, b) for a, b in zip(ours, others, strict=False) if a != b)

    def _cohorts_between(self, step, leaf, theirs, ask):
        if set(self.path(leaf)) & set(self.path(theirs)):
            return
        common = set(self.above(leaf)) & set(self.above(theirs))
        tree = self.tree()
        for cohort in self.above(theirs) if common else ():
            balances = [tree.columns[key].balance(tree.index[cohort]) for key, n in zip(KEYS, ask, strict=True) if n]
            if cohort not in common and all(balance >= 0 for balance in balances):
                self._fault(step, f"but {cohort} borrows nothing")

    def _gates(self, step, leaf, ask):
        fixed = not self.gangs[step.gang].preemptible
        requested = [r for r, n in enumerate(ask) if n]
        for name in self.path(leaf):
            held, limit, quota = self.held(name), self.limit(name), self.quota(name)
            if any(held[r] + ask[r] > limit[r] for r in requested):
                self._fault(step, f"over the limit of {name}")
            held = self.held(name, fixed_only=True)
            if fixed and any(held[r] + ask[r] > quota[r] for r in requested):
                self._fault(step, f"over the quota of {name}")
        if next(self.above(leaf), None) is not None:
            tree = self.tree()
            if any(ask[r] > tree.columns[KEYS[r]].available(tree.index[leaf]) for r in requested):
                self._fault(step, "beyond what the tree has available")

    def _stays_fair(self, step, leaf, ask, reclaims):
        for name in self.path(leaf):
            parent = self.queues[name].parent
            for loser in reclaims:
                for sibling in self.path(self.gangs[loser.gang].queue):
                    above = self.queues[sibling].parent
                    same_level = above == parent or not {above, parent} & set(self.queues)
                    if sibling == name or not same_level:
                        continue
                    lost = self.size(loser.gang, loser.tasks)
                    for r in range(len(KEYS)):
                        mine, theirs = self._ratio(name, r), self._ratio(sibling, r)
                        if (ask[r] or lost[r]) and self.fair[sibling][r] and mine > 1 and mine >= theirs:
                            self._fault(step, f"and {name} is now as far above its fair share as {sibling}")

    def _ratio(self, name, r):
        held, fair = self.held(name)[r], self.fair[name][r]
        return 0 if not held or fair == UNLIMITED else UNLIMITED if not fair else Fraction(held) / Fraction(fair)
