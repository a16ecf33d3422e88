"""Requests of one process that share a transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from pools.domain.errors import BadInput, Busy, DomainError
from scheduling.services.workflows.group_commit import GroupCommit, Take

ROOM = 4


@dataclass
class Ledger:
    """A pretended transaction: it waits for its gate, then takes the others and makes the changes of all."""

    locked: bool = True
    attempts: int = 0
    fault: Exception | None = None
    faults_of: set[str] = field(default_factory=set)
    gate: threading.Event = field(default_factory=threading.Event)
    transactions: list[list[str]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups: GroupCommit[str, str] = GroupCommit(together=self._together, alone=self._alone, size=len)

    def _together(self, first: str, take: Take[str]) -> Sequence[str | DomainError]:
        assert self.gate.wait(30)
        self.attempts += 1
        if not self.locked:
            raise Busy("locked")
        group = [first, *take(ROOM - len(first))]
        if self.fault is not None:
            raise self.fault
        self.transactions.append(group)
        return [BadInput(f"no {name}") if name in self.faults_of else f"done {name}" for name in group]

    def _alone(self, name: str) -> str:
        self.alone.append(name)
        if name in self.faults_of:
            raise BadInput(f"no {name}")
        return f"alone {name}"

    def _known(self) -> int:
        """The leader and those that wait for it."""
        return len(self.groups._waiting["k"]) + 1 if self.groups._waiting else 0

    def run(self, *names: str) -> list[str | BaseException]:
        """Each request in a thread, in this order, while the first one waits for the gate."""
        with ThreadPoolExecutor(len(names)) as threads:
            calls: list[Future[str]] = []
            for place, name in enumerate(names):
                calls.append(threads.submit(self.groups.run, "k", name))
                wait_until(lambda place=place: self._known() > place)  # type: ignore[misc]
            self.gate.set()
            return [call.exception(30) or call.result() for call in calls]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_request_alone_waits_for_nobody() -> None:
    ledger = Ledger()
    ledger.gate.set()
    assert ledger.groups.run("k", "a") == "done a"
    assert ledger.groups.run("k", "b") == "done b"
    assert ledger.transactions == [["a"], ["b"]]


def test_those_that_wait_share_the_transaction_of_the_leader() -> None:
    ledger = Ledger()
    assert ledger.run("a", "b", "c") == ["done a", "done b", "done c"]
    assert ledger.transactions == [["a", "b", "c"]]


def test_a_transaction_takes_no_more_than_its_room_and_the_next_one_takes_the_rest() -> None:
    ledger = Ledger()
    assert ledger.run("a", "bb", "cc", "d", "e") == ["done a", "done bb", "done cc", "done d", "done e"]
    assert ledger.transactions == [["a", "bb"], ["cc", "d", "e"]]


def test_other_keys_do_not_wait() -> None:
    """The leader of one key runs a request of another key meanwhile, in the same thread."""

    def together(first: str, _take: Take[str]) -> list[str | DomainError]:
        return [groups.run("other", "b") if first == "a" else f"done {first}"]

    groups: GroupCommit[str, str] = GroupCommit(together=together, alone=str, size=len)
    assert groups.run("k", "a") == "done b"


def test_a_refusal_is_for_its_own_request_only() -> None:
    for refused in ("a", "b"):  # the leader, or one that waits
        ledger = Ledger(faults_of={refused})
        results = ledger.run("a", "b", "c")
        assert [str(result) for result in results] == [
            f"no {name}" if name == refused else f"done {name}" for name in "abc"
        ]
        assert ledger.alone == []


def test_after_a_failure_each_is_tried_alone() -> None:
    ledger = Ledger(fault=ValueError("a defect"), faults_of={"b"})
    results = ledger.run("a", "b", "c")
    assert [str(result) for result in results] == ["alone a", "no b", "alone c"]
    assert sorted(ledger.alone) == ["a", "b", "c"]


def test_a_request_alone_fails_with_its_own_error_and_is_not_tried_again() -> None:
    ledger = Ledger(fault=ValueError("a defect"))
    ledger.gate.set()
    with pytest.raises(ValueError, match="a defect"):
        ledger.groups.run("k", "a")
    assert ledger.alone == []


def test_busy_is_the_error_of_all_and_nothing_is_repeated() -> None:
    """The outcome of a commit may be unknown."""
    ledger = Ledger(fault=Busy("try again", retry_after=1))
    results = ledger.run("a", "b", "c")
    assert [str(result) for result in results] == ["try again"] * 3
    assert [result.retry_after for result in results if isinstance(result, Busy)] == [1, 1, 1]
    assert len(set(map(id, results))) == 3
    assert ledger.alone == []


def test_without_the_lock_all_that_wait_are_told_at_once() -> None:
    """Otherwise they would wait for it one after the other."""
    ledger = Ledger(locked=False)
    results = ledger.run("a", "bb", "ccc", "dddd")
    assert [str(result) for result in results] == ["locked"] * 4
    assert (ledger.attempts, ledger.alone) == (1, [])


def test_nothing_is_kept() -> None:
    ledger = Ledger(faults_of={"b"})
    ledger.run("a", "b", "c")
    assert ledger.groups._waiting == {}
