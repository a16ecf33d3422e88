"""The state of a cluster with what else decides: fair shares, and the policy against endless waiting."""

from __future__ import annotations

from scheduling.domain.engine.facts import ClusterFacts
from scheduling.domain.engine.rules.fair_share import ChangedRequests, ShareLevels
from scheduling.domain.engine.rules.reservation import StartPolicy
from scheduling.domain.engine.rules.shortcuts import Shortcuts
from scheduling.domain.engine.state.world_state import WorldState


class World(WorldState):
    """The state that the phases work on."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._shares = ShareLevels(facts, self.keys, self.tops)
        self._shares.divide_all(self.queues)
        self.shortcuts = Shortcuts()
        """The kept findings that the rules may use; these keep none."""
        self.policy = None if facts.policy is None else StartPolicy(self, facts.policy)
        if self.policy is not None:
            self.watchers.append(self.policy)

    def begin_run(self) -> None:
        """Begin another run in this state."""
        super().begin_run()
        if self.policy is not None:
            self.time_passed()

    def divide_shares_again(self, changed: ChangedRequests) -> None:
        """Divide the fair shares again after requests changed (:meth:`ShareLevels.divide_again`)."""
        for queue in self._shares.divide_again(changed):
            self.version += 1
            for watcher in self.watchers:
                watcher.share_changed(self, queue)
