"""The index of one gang's tasks, compared with plain sets that are sorted for each answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.engine.state.task_index import TaskIndex

NEED = ((0, 1),), ((0, 2),)


@given(st.lists(st.integers(0, 11), max_size=40), st.integers(0, 5))
def test_tasks_are_always_in_the_order_of_the_spec(moves, count):
    """Twelve tasks on two leaves; each step starts a waiting task or stops a running one."""
    lines, running = TaskIndex(2), set()
    for i in range(12):
        lines.add_waiting(i, i % 2, NEED[i % 3 == 0])
    for i in moves:
        leaf, need = i % 2, NEED[i % 3 == 0]
        if i in running:
            lines.remove_running(i, leaf)
            lines.add_waiting(i, leaf, need)
        else:
            lines.remove_waiting(i, leaf, need)
            lines.add_running(i, leaf)
        running ^= {i}
    for leaf in (0, 1):
        here = [i for i in range(12) if i % 2 == leaf]
        waits, runs = [i for i in here if i not in running], [i for i in here if i in running]
        assert lines.waiting_tasks(leaf) == waits
        assert lines.first_waiting(leaf, count) == waits[:count]
        assert lines.last_running(leaf, count) == runs[len(runs) - min(count, len(runs)) :]
        assert lines.has_unlike_waiting(leaf) == (len({i % 3 == 0 for i in waits}) > 1)


def test_equal_sets_have_equal_digests_and_different_sets_different_ones():
    digests = set()
    for chosen in range(2**8):
        forth, back = TaskIndex(1), TaskIndex(1)
        for i in range(8):
            back.add_waiting(i, 0, ())
        for i in range(8):
            if chosen & 1 << i:
                forth.add_waiting(i, 0, ())
            else:
                back.remove_waiting(i, 0, ())
        assert forth.waiting_digest == back.waiting_digest
        digests.add(forth.waiting_digest)
    assert len(digests) == 2**8
