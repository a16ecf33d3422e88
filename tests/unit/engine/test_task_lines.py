"""The lines of one gang's tasks, against plain sets that are sorted whenever somebody asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.engine.task_index import TaskLines

NEED = ((0, 1),), ((0, 2),)


@given(st.lists(st.integers(0, 11), max_size=40), st.integers(0, 5))
def test_tasks_stand_in_the_order_of_the_spec_whatever_happens(moves, count):
    """Twelve tasks on two leaves; each move starts a task that waits, or stops one that runs."""
    lines, running = TaskLines(2), set()
    for i in range(12):
        lines.queue(i, i % 2, NEED[i % 3 == 0])
    for i in moves:
        leaf, need = i % 2, NEED[i % 3 == 0]
        if i in running:
            lines.leave_run(i, leaf)
            lines.queue(i, leaf, need)
        else:
            lines.leave_queue(i, leaf, need)
            lines.run(i, leaf)
        running ^= {i}
    for leaf in (0, 1):
        here = [i for i in range(12) if i % 2 == leaf]
        waits, runs = [i for i in here if i not in running], [i for i in here if i in running]
        assert lines.waiting(leaf) == waits
        assert lines.first(leaf, count) == waits[:count]
        assert lines.last(leaf, count) == runs[len(runs) - min(count, len(runs)) :]
        assert lines.unlike(leaf) == (len({i % 3 == 0 for i in waits}) > 1)


def test_equal_sets_have_equal_digests_and_unlike_ones_unlike():
    digests = set()
    for chosen in range(2**8):
        forth, back = TaskLines(1), TaskLines(1)
        for i in range(8):
            back.queue(i, 0, ())
        for i in range(8):
            if chosen & 1 << i:
                forth.queue(i, 0, ())
            else:
                back.leave_queue(i, 0, ())
        assert forth.waits == back.waits
        digests.add(forth.waits)
    assert len(digests) == 2**8
