"""The switch of the garbage collector: off inside a pause, and as it was before afterwards."""

from __future__ import annotations

import gc

import pytest

from scheduling.garbage_collector import CollectorSwitch, garbage_collector
from tests.support.product_source import module_facts


class FakeCollector:
    def __init__(self, *, enabled):
        self.enabled = enabled

    def isenabled(self):
        return self.enabled

    def disable(self):
        self.enabled = False

    def enable(self):
        self.enabled = True


def test_the_collector_is_off_inside_a_pause_and_on_after_it():
    collector = FakeCollector(enabled=True)
    with CollectorSwitch(collector).paused():
        assert not collector.enabled
    assert collector.enabled


def test_an_inner_pause_does_not_end_the_outer_one():
    collector = FakeCollector(enabled=True)
    switch = CollectorSwitch(collector)
    with switch.paused():
        with switch.paused():
            pass
        assert not collector.enabled
    assert collector.enabled


def test_a_collector_that_was_off_stays_off():
    collector = FakeCollector(enabled=False)
    with CollectorSwitch(collector).paused():
        pass
    assert not collector.enabled


def test_an_error_inside_turns_the_collector_on_again():
    collector = FakeCollector(enabled=True)
    with pytest.raises(ValueError, match="broken"), CollectorSwitch(collector).paused():
        raise ValueError("broken")
    assert collector.enabled


def test_of_overlapping_pauses_the_first_to_end_turns_the_collector_on():
    """Two threads overlap: otherwise a busy process would never collect."""
    collector = FakeCollector(enabled=True)
    switch = CollectorSwitch(collector)
    first, second = switch.paused(), switch.paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert collector.enabled
    second.__exit__(None, None, None)
    assert collector.enabled


def test_the_switch_of_the_process_is_the_one_of_gc():
    was = gc.isenabled()
    with garbage_collector.paused():
        assert not gc.isenabled()
    assert gc.isenabled() is was


def test_no_module_of_the_domain_touches_the_collector():
    imports = {path: dict(facts.imports) for path, facts in module_facts().items()}
    assert [path for path, names in imports.items() if path.startswith("scheduling/domain/") and "gc" in names] == []
