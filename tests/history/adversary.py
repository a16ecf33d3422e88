"""Faults by seed: what breaks, when (counted in operations), and for how long.

The plan is the same for the same seed; the moment inside a request is not, because threads and processes race.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
import redis

from osmo_admin.ops.programs import process_commands
from tests.history.installation import HistoryInstallation, HistoryServers
from tests.history.record import Recorder

MAX_AT_ONCE = 3
DATABASE, BROKER, CLUSTER = "database", "broker", "cluster"
CLOCK_JUMPS = (-7200.0, -90.0, -5.0, 5.0, 90.0, 3600.0, 93_600.0)
"""Seconds; the last is more than the day for which answers of repeated requests are kept."""

WEIGHTS: dict[str, int] = {
    "kill": 10,
    "kill_children": 6,
    "freeze": 8,
    "shift_clock": 6,
    "fill_log": 3,
    "crash_database": 2,
    "restart_database": 2,
    "kill_session": 2,
    "end_session": 6,
    "freeze_session": 5,
    "kill_broker": 3,
    "flush_broker": 4,
    "freeze_broker": 3,
    "cut_cluster": 5,
}
_DATABASE_FAULTS = {"crash_database", "restart_database", "kill_session", "end_session", "freeze_session"}
_BROKER_FAULTS = {"kill_broker", "flush_broker", "freeze_broker"}


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that begins when `step` operations have begun and ends `seconds` later. `amount` is the shift of a clock
    in seconds, or chooses a session."""

    number: int
    step: int
    name: str
    target: str
    seconds: float
    amount: float


def plan(
    seed: int, faults: int, operations: int, processes: list[str], *, with_cluster: bool = False
) -> list[PlannedFault]:
    """The faults of a run, in order of their steps."""
    choose = random.Random(f"{seed}/faults")
    kinds = [name for name in WEIGHTS if with_cluster or name != "cut_cluster"]
    weights = [WEIGHTS[name] for name in kinds]
    found = []
    for number in range(1, faults + 1):
        step = round((number - 1 + choose.random()) * operations * 0.95 / faults)
        name = choose.choices(kinds, weights)[0]
        amount = choose.random()
        if name in _DATABASE_FAULTS:
            target = DATABASE
        elif name in _BROKER_FAULTS:
            target = BROKER
        elif name == "cut_cluster":
            target = CLUSTER
        elif name == "kill_children":
            target = choose.choice([each for each in processes if not each.startswith(process_commands.CLUSTERS)])
        else:
            target = choose.choice(processes)
        if name == "shift_clock":
            amount = choose.choice(CLOCK_JUMPS)
        found.append(PlannedFault(number, step, name, target, round(choose.uniform(0.2, 2.5), 2), amount))
    return found


@dataclass(slots=True)
class Adversary:
    """Carries out a plan. Its `tick` runs in the main thread, because a child process ends with the thread that
    started it; `may_begin` holds clients back so that they do not outrun the plan."""

    installation: HistoryInstallation
    recorder: Recorder
    plan: list[PlannedFault]
    slack: int = 60
    _next: int = 0
    _active: dict[str, tuple[float, PlannedFault, Callable[[], None]]] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether every fault has begun and ended."""
        return self._next == len(self.plan) and not self._active

    @property
    def begun(self) -> int:
        """The number of faults that have begun."""
        return self._next

    def may_begin(self, step: int) -> bool:
        """Whether the operation of this number may begin: the faults planned well before it have begun."""
        following = self._next
        return following == len(self.plan) or step <= self.plan[following].step + self.slack

    def tick(self, begun_operations: int) -> None:
        """End the faults whose time is over, restart what died by itself, begin the faults that are due."""
        for target, (until, fault, end) in list(self._active.items()):
            if time.monotonic() >= until:
                end()
                del self._active[target]
                self._note(fault, "end")
        self._restart_dead()
        while self._next < len(self.plan) and len(self._active) < MAX_AT_ONCE:
            fault = self.plan[self._next]
            if fault.step > begun_operations or fault.target in self._active:
                return
            self._next += 1
            self._note(fault, "begin")
            end = self._begin(fault)
            self._active[fault.target] = (time.monotonic() + fault.seconds, fault, end)

    def _note(self, fault: PlannedFault, phase: str) -> None:
        self.recorder.write(
            "fault", fault=fault.number, name=fault.name, phase=phase, target=fault.target, step=fault.step,
            seconds=fault.seconds, amount=fault.amount,
        )  # fmt: skip

    def _restart_dead(self) -> None:
        """As a supervisor does: a process that ended outside of a fault is started again."""
        for name, child in self.installation.children.items():
            if name not in self._active and child.exit_code() is not None:
                self.recorder.write("note", text=f"{name} ended with {child.exit_code()} and is started again")
                self.installation.kill_process(name)  # the rest of its process group
                self.installation.start_process(name)

    # --- the faults: each begins and returns its end ---
    def _begin(self, fault: PlannedFault) -> Callable[[], None]:
        begin: Callable[[PlannedFault], Callable[[], None]] = getattr(self, f"_{fault.name}")
        return begin(fault)

    def _kill(self, fault: PlannedFault) -> Callable[[], None]:
        self.installation.kill_process(fault.target)
        return lambda: self._start(fault.target)

    def _start(self, name: str) -> None:
        self.installation.start_process(name)

    def _kill_children(self, fault: PlannedFault) -> Callable[[], None]:
        self.installation.kill_children_of(fault.target)
        return _nothing

    def _freeze(self, fault: PlannedFault) -> Callable[[], None]:
        return _stop_group(self.installation.children[fault.target].pid)

    def _shift_clock(self, fault: PlannedFault) -> Callable[[], None]:
        self.installation.shift_clock(fault.target, fault.amount)
        return lambda: self.installation.shift_clock(fault.target, 0)

    def _fill_log(self, fault: PlannedFault) -> Callable[[], None]:
        self.installation.limit_log(fault.target)
        return lambda: self.installation.unlimit_log(fault.target)

    @property
    def _servers(self) -> HistoryServers:
        servers = self.installation.servers
        assert isinstance(servers, HistoryServers)
        return servers

    def _crash_database(self, fault: PlannedFault) -> Callable[[], None]:
        self._servers.stop_database(signal.SIGQUIT)
        return self._servers.start_database

    def _restart_database(self, fault: PlannedFault) -> Callable[[], None]:
        self._servers.stop_database(signal.SIGINT)
        return self._servers.start_database

    def _session(self, fault: PlannedFault) -> int | None:
        with suppress(psycopg.Error):
            if sessions := self.installation.database_sessions():
                return sessions[int(fault.amount * len(sessions))]
        return None

    def _kill_session(self, fault: PlannedFault) -> Callable[[], None]:
        """PostgreSQL restarts all sessions when one of its processes is killed."""
        if pid := self._session(fault):
            _signal(pid, signal.SIGKILL)
        return _nothing

    def _end_session(self, fault: PlannedFault) -> Callable[[], None]:
        if pid := self._session(fault):
            _signal(pid, signal.SIGTERM)
        return _nothing

    def _freeze_session(self, fault: PlannedFault) -> Callable[[], None]:
        if not (pid := self._session(fault)):
            return _nothing
        _signal(pid, signal.SIGSTOP)
        return lambda: _signal(pid, signal.SIGCONT)

    def _kill_broker(self, fault: PlannedFault) -> Callable[[], None]:
        self._servers.stop_broker(signal.SIGKILL)
        return self._servers.start_broker

    def _flush_broker(self, fault: PlannedFault) -> Callable[[], None]:
        with suppress(redis.RedisError), self.installation.broker_client() as broker:
            broker.flushall()
        return _nothing

    def _freeze_broker(self, fault: PlannedFault) -> Callable[[], None]:
        pid = self._servers.process_id(BROKER)
        assert pid is not None
        return _stop_group(pid)

    def _cut_cluster(self, fault: PlannedFault) -> Callable[[], None]:
        """Connections hang, or are closed."""
        assert self.installation.cluster is not None
        line = self.installation.cluster.line
        line.cut(closes=fault.amount < 0.5)
        return line.restore


def _nothing() -> None:
    """The end of a fault that ends by itself."""


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _stop_group(group: int) -> Callable[[], None]:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGSTOP)

    def resume() -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGCONT)

    return resume
