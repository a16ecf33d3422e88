"""How often, and after which pauses, a process is started again."""

from __future__ import annotations

from osmo_admin.ops.services import DELAYS, WINDOW_SECONDS, Service


def never() -> None:
    """Not called here."""
    raise AssertionError


def deaths(*times: float) -> list[float | None]:
    """The pause after each death."""
    service = Service("web", never)  # type: ignore[arg-type]
    return [service.note_death(at) for at in times]


def test_the_first_restart_is_immediate_and_later_ones_wait_longer() -> None:
    assert deaths(*[float(second) for second in range(len(DELAYS))]) == list(DELAYS)
    assert DELAYS[0] == 0
    assert sorted(DELAYS) == list(DELAYS)


def test_one_death_too_many_is_the_end() -> None:
    assert deaths(*[float(second) for second in range(len(DELAYS) + 1)])[-1] is None


def test_deaths_before_the_window_do_not_count() -> None:
    later = WINDOW_SECONDS + 10
    assert deaths(0, 1, 2, 3, 4, later, later + 1) == [*DELAYS, 0.0, 1.0]
