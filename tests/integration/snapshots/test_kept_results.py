"""A kept result of a read: used while its token stays, and never when a snapshot may see something else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import transaction

from pools.database.transactions import one_snapshot
from pools.models import Backend, Node, User
from pools.selectors.change_tokens import KeptResult, read_backends_token
from scheduling.selectors.cluster.nodes import gpus_by_node_set
from tests.support import world
from tests.support.threads import run_concurrently

pytestmark = pytest.mark.django_db(transaction=True)


class Descriptions:
    """Reads the descriptions of all clusters, and counts how often."""

    def __init__(self) -> None:
        self.reads = 0
        self.kept = KeptResult(read_backends_token, self._read)

    def read(self) -> list[str]:
        """In a snapshot of its own."""
        with one_snapshot():
            return self.kept.get()

    def _read(self) -> list[str]:
        self.reads += 1
        return list(Backend.objects.order_by("name").values_list("description", flat=True))


@pytest.fixture
def descriptions() -> Descriptions:
    world.make_backend("a")
    return Descriptions()


def elsewhere(change: Callable[[], object]) -> None:
    """Call it on another connection."""
    (outcome,) = run_concurrently([change])
    assert not isinstance(outcome, Exception), outcome


def describe(text: str) -> None:
    Backend.objects.update(description=text)


def test_a_result_is_kept_while_its_token_stays(descriptions: Descriptions) -> None:
    world.make_user("ann")
    assert [descriptions.read() for _ in range(3)] == [[""]] * 3
    User.objects.filter(username="ann").update(email="ann@example.com")
    assert descriptions.read() == [""]
    assert descriptions.reads == 1


def test_a_commit_of_another_connection_is_seen_at_once(descriptions: Descriptions) -> None:
    descriptions.read()
    elsewhere(lambda: describe("new"))
    assert descriptions.read() == ["new"]


def test_a_change_that_began_before_the_first_read_is_seen_after_its_commit(descriptions: Descriptions) -> None:
    has_written, may_commit, has_committed = (threading.Event() for _ in range(3))

    def write_slowly() -> None:
        with transaction.atomic():
            describe("slow")
            has_written.set()
            assert may_commit.wait(30)
        has_committed.set()

    def read_meanwhile() -> list[list[str]]:
        assert has_written.wait(30)
        found = [descriptions.read(), descriptions.read()]
        with one_snapshot():  # begins before the commit, and so does not see it
            Backend.objects.count()
            may_commit.set()
            assert has_committed.wait(30)
            found.append(descriptions.kept.get())
        return [*found, descriptions.read()]

    written, found = run_concurrently([write_slowly, read_meanwhile])
    assert not isinstance(written, Exception), written
    assert found == [[""], [""], [""], ["slow"]]


def test_a_change_that_is_rolled_back_is_seen_by_nobody_else(descriptions: Descriptions) -> None:
    with transaction.atomic():
        descriptions.read()
        describe("mine")
        assert descriptions.kept.get() == ["mine"]
        transaction.set_rollback(True)
    assert descriptions.read() == [""]


def test_the_gpus_of_the_nodes_follow_each_change() -> None:
    node = Node.objects.create(backend=world.make_backend("a"), name="n1", gpus=4)

    def total() -> list[int]:
        with one_snapshot():
            return [capacity for capacity, _ in gpus_by_node_set().values()]

    (before,) = total()
    node.gpus = 6
    elsewhere(node.save)
    assert total() == [before + 2]
