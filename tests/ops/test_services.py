"""After which pauses a process is started again, and when it counts as one that keeps dying."""

from __future__ import annotations

from osmo_admin.ops.programs.services import DELAYS, MANY_DEATHS, WINDOW_SECONDS, Service


def never() -> None:
    """Not called here."""
    raise AssertionError


def deaths(*times: float) -> list[float]:
    """The pause after each death."""
    service = Service("web", never)  # type: ignore[arg-type]
    return [service.note_death(at, "it was killed") for at in times]


def test_the_first_restart_is_immediate_and_later_ones_wait_longer() -> None:
    assert deaths(*[float(second) for second in range(len(DELAYS))]) == list(DELAYS)
    assert DELAYS[0] == 0
    assert sorted(DELAYS) == list(DELAYS)


def test_the_last_pause_is_repeated() -> None:
    assert deaths(*[float(second) for second in range(len(DELAYS) + 3)])[-3:] == [DELAYS[-1]] * 3


def test_deaths_before_the_window_do_not_count() -> None:
    later = WINDOW_SECONDS + 10
    assert deaths(0, 1, 2, 3, 4, later, later + 1) == [*DELAYS[:5], 0.0, 1.0]


def test_a_process_keeps_dying_until_it_has_lived_for_a_while() -> None:
    service = Service("web", never)  # type: ignore[arg-type]
    for second in range(MANY_DEATHS - 1):
        service.note_death(float(second), "it was killed")
    assert not service.keeps_dying(10)
    service.note_death(10, "it was killed")
    assert service.keeps_dying(20)
    assert not service.keeps_dying(10 + WINDOW_SECONDS)
