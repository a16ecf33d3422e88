"""Starting: the next attempt of a gang, and the phase in which everybody has a turn for what is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scheduling.domain.gang import ROOT, Growth

from .gates import passes
from .lines import Line
from .nodes import Request
from .order import Tournament
from .state import GangState, QueueState, total_of
from .steps import Action, Diary
from .world import World


def attempt(world: World, gang: GangState) -> list[int]:
    """Start the next tasks of a gang if they may and can: all that its minimum needs, or one more. Empty if not."""
    before = world.mark()
    if gang.tree.single:
        line = gang.waiting_tasks(ROOT)
        missing = max(1, gang.tree.thresholds[ROOT] - gang.active[ROOT])
        if missing > len(line) or not _start_some(world, gang, line, missing):
            return []
    else:
        growth = Growth(
            gang.tree,
            list(gang.active),
            list(gang.waiting),
            lambda leaf, count: _start_some(world, gang, gang.waiting_tasks(leaf), count),
            mark=world.mark,
            undo=world.undo,
        )
        if not growth.attempt():
            return []
    return [i for _gang, i, _node in world.journal[before:]]


def _start_some(world: World, gang: GangState, line: list[int], count: int) -> bool:
    queue = gang.queue
    if queue is None:
        return False
    for tasks in _choices(gang, line, count):
        request = total_of([gang.requests[i] for i in tasks])
        if passes(world, queue, request, preemptible=gang.preemptible) and world.start(gang, tasks):
            return True
    return False


def _choices(gang: GangState, line: list[int], count: int) -> Iterator[list[int]]:
    """First in line; where tasks are unlike, then the least of them."""
    yield line[:count]
    if count < len(line) and len({gang.needs[i] for i in line}) > 1:
        least = sorted(line, key=lambda i: [amount for _r, amount in gang.requests[i]])
        yield sorted(least[:count])


def waiting_lines(world: World, wanted: Callable[[GangState, QueueState], bool]) -> dict[int, Line]:
    """The line of each leaf where something waits that is wanted; of gangs alike, one is asked for all."""
    lines = {}
    for queue in world.queues:
        if queue.children or queue.cyclic:
            continue
        groups = {}
        for signature, group in queue.waiting.items():
            if wanted(next(iter(group)), queue):
                groups[signature] = group.copy()
        if groups:
            lines[queue.index] = Line(queue, groups)
    return lines


class _Startable:
    """A first look as the phase begins: in it things only get tighter, so who cannot start now is left out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._slots: dict[Request, int] = {}

    def __call__(self, gang: GangState, queue: QueueState) -> bool:
        world = self._world
        if not queue.open:
            return False
        tasks = gang.next_tasks()
        if not gang.tree.single or len(tasks) < sum(gang.waiting):
            # It may start in more than one way; only the attempt can tell.
            return True
        if not (gang.complete and passes(world, queue, gang.ask, preemptible=gang.preemptible)):
            return False
        needs = [gang.needs[i] for i in tasks]
        return all(self._room(need) >= needs.count(need) for need in set(needs))

    def _room(self, request: Request) -> int:
        """How many such requests the nodes could take."""
        if request not in self._slots:
            nodes = self._world.nodes
            self._slots[request] = 2**62 if nodes is None else nodes.slots(request)
        return self._slots[request]


def start_phase(world: World, diary: Diary) -> bool:
    """Everybody in turn, until nothing that is free can be used; True if anything started."""
    lines = waiting_lines(world, _Startable(world))
    order = Tournament(lines)
    moved = False
    while (leaf := order.next()) is not None:
        line = lines[leaf.index]
        gang = line.head()
        if gang is None:
            break
        tasks = attempt(world, gang)
        if tasks:
            moved = True
            diary.write(Action.START, gang, tasks)
            line.pass_head()
            world.relist(gang)
            if any(gang.waiting):
                line.join(gang)
            world.journal.clear()
        else:
            line.skip_all_like_head()
        order.refresh(leaf)
    return moved
