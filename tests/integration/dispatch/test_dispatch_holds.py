"""A pool that says so holds back later work for a gang that has waited long on its cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from pools.domain.changes.pools import PatchPool
from pools.models import AuditEntry
from scheduling.domain.changes.workflows import CancelWorkflow
from scheduling.domain.priorities import Priority
from scheduling.history.forecast.futures import sample_waits
from scheduling.history.starts.forecast_facts import read_forecast_facts
from scheduling.history.starts.question import starts_if_submitted
from scheduling.models import Group, Workflow
from scheduling.selectors.queue.dispatch_holds import read_dispatch_holds
from scheduling.selectors.queue.live_facts import read_live_facts
from scheduling.selectors.queue.visible_queue import list_waiting_gangs
from scheduling.selectors.what_if.impact import read_cancel_impact
from scheduling.selectors.what_if.live_question import answer_live_question
from scheduling.services.workflows.submission import Submission, prepare_submissions
from tests.support import world
from tests.support.agent_harness import AgentHarness, find_group, gang_file

HOUR = 3600


def hold(harness: AgentHarness, seconds: int | None = HOUR) -> None:
    world.apply_change(PatchPool(name=harness.pool.name, patch={"hold_after": seconds}))


def has_waited(workflow: Workflow, seconds: float = 2 * HOUR) -> None:
    """Its gang has waited for so long."""
    Group.objects.filter(workflow=workflow).update(ready_at=timezone.now() - timedelta(seconds=seconds))


def is_sent(harness: AgentHarness, workflow: Workflow) -> bool:
    return bool(harness.list_pods(workflow))


def big(harness: AgentHarness, **more: Any) -> Workflow:
    """A gang of 40 + 40 GPUs that its cluster has not placed, and that has waited for two hours."""
    workflow = harness.submit(gang_file("lead", "other", gpus=40), **more)
    harness.run_agent()
    assert is_sent(harness, workflow)
    has_waited(workflow)
    return workflow


def test_later_work_is_held_until_the_gang_has_started(harness: AgentHarness) -> None:
    """The case of a stream of small work: without the setting each of it reaches the cluster and may pass the gang."""
    first = big(harness)
    passes = harness.submit(gpus=1)
    harness.run_agent()
    assert is_sent(harness, passes), "off by default"
    hold(harness)
    later = harness.submit(gpus=1)
    harness.run_agent()
    assert not is_sent(harness, later)
    assert is_sent(harness, passes), "what the cluster has stays there"
    harness.run_pods(*harness.list_pods(first))
    harness.run_agent()
    assert is_sent(harness, later)
    assert find_group(later).waiting_reason is None


def test_a_gang_that_the_cluster_does_not_start_although_it_has_room_holds_nothing_for_ever(
    fake_harness: AgentHarness,
) -> None:
    """Its scheduler waits for something that the end of no work gives, a taint that nothing tolerates for example."""
    hold(fake_harness)
    first = big(fake_harness)
    has_waited(first, HOUR - 60)
    early = fake_harness.submit(gpus=1)
    fake_harness.run_agent()
    assert is_sent(fake_harness, early), "a gang that has not waited long holds nothing"
    has_waited(first, 3 * HOUR - 60)
    later = fake_harness.submit(gpus=1)
    fake_harness.run_agent()
    assert not is_sent(fake_harness, later)
    has_waited(first, 3 * HOUR)
    fake_harness.run_agent()
    assert is_sent(fake_harness, later)


def test_the_end_of_the_setting_or_of_the_gang_releases_the_work(fake_harness: AgentHarness) -> None:
    from scheduling.services.workflows.user_actions import cancel_workflow

    hold(fake_harness)
    first = big(fake_harness)
    later, last = (fake_harness.submit(gpus=1) for _ in range(2))
    fake_harness.run_agent()
    assert not is_sent(fake_harness, later)
    hold(fake_harness, None)
    fake_harness.run_agent()
    assert is_sent(fake_harness, later)
    hold(fake_harness)
    another = fake_harness.submit(gpus=1)
    fake_harness.run_agent()
    assert not is_sent(fake_harness, another)
    cancel_workflow(CancelWorkflow(name=first.name), actor=world.admin_actor())
    fake_harness.run_agent()
    assert is_sent(fake_harness, another)
    assert is_sent(fake_harness, last)


def test_a_guarantee_of_another_leaf_is_kept(fake_harness: AgentHarness) -> None:
    """Work inside the quota of its own leaf goes on; LOW work beyond it does not."""
    harness = AgentHarness.make(fake_harness.cluster, "osmo", name="two", pool="split", a=40)
    hold(harness)
    first = harness.submit(gang_file("lead", gpus=50), to="split")
    harness.run_agent()
    has_waited(first)
    inside = harness.submit(gpus=40, to="split--a")
    low = harness.submit(gpus=8, to="split--a", priority=Priority.LOW)
    harness.run_agent()
    assert is_sent(harness, inside)
    assert not is_sent(harness, low)


def test_what_the_gang_can_preempt_or_outlive_goes_on(fake_harness: AgentHarness) -> None:
    """LOW work of the same queue is preempted by the gang; work with a short time limit ends before it can start."""
    running = fake_harness.submit(world.workflow_file("runs", 30).replace("workflow:\n", LIMIT.format("1h"), 1))
    fake_harness.start_work(running)
    hold(fake_harness)
    big(fake_harness, priority=Priority.HIGH)
    low = fake_harness.submit(gpus=1, priority=Priority.LOW)
    short, long = (
        fake_harness.submit(world.workflow_file(name, 1).replace("workflow:\n", LIMIT.format(limit), 1))
        for name, limit in (("short", "10m"), ("long", "3h"))
    )
    fake_harness.run_agent()
    assert (is_sent(fake_harness, low), is_sent(fake_harness, short), is_sent(fake_harness, long)) == (
        True,
        True,
        False,
    )


LIMIT = "workflow:\n  timeout: {{exec_timeout: {}}}\n"


def test_a_gang_that_can_never_start_holds_nothing(fake_harness: AgentHarness) -> None:
    hold(fake_harness)
    first = fake_harness.submit(gang_file("lead", "other", gpus=40), priority=Priority.LOW)
    fake_harness.run_agent()
    has_waited(first)
    resources = {"gpu": {"guarantee": 60, "maximum": 60, "weight": 1}}
    world.apply_change(PatchPool(name="team", patch={"resources": resources}))
    later = fake_harness.submit(gpus=1, priority=Priority.LOW)
    fake_harness.run_agent()
    assert is_sent(fake_harness, later)


def test_a_long_hold_stands_while_other_work_has_the_room(fake_harness: AgentHarness) -> None:
    running = fake_harness.submit(gpus=40)
    fake_harness.start_work(running)
    hold(fake_harness)
    has_waited(big(fake_harness), 30 * HOUR)
    later = fake_harness.submit(gpus=1)
    fake_harness.run_agent()
    assert not is_sent(fake_harness, later)


def test_the_reason_names_the_gang_the_time_and_the_setting(fake_harness: AgentHarness) -> None:
    """The name is only for readers who may see that work."""
    hold(fake_harness)
    first = big(fake_harness)
    later = fake_harness.submit(gpus=1)
    fake_harness.run_agent()
    gangs, _ = list_waiting_gangs(world.admin_actor(), limit=10)
    waiting = {gang.workflow: gang for gang in gangs}
    gang = waiting[later.name]
    assert (gang.reason.code, gang.reservation, gang.holders) == ("held_back", None, (first.name,))
    assert gang.unblock == (f"The gang that comes first starts, or is cancelled ({first.name}).",)
    ready = Group.objects.get(workflow=first).ready_at
    assert ready is not None
    since = ready + timedelta(seconds=HOUR)
    assert f"held back since {since:%Y-%m-%d %H:%M} UTC" in gang.reason.message
    assert "the setting hold_after of pool team says (3600 seconds)" in gang.reason.message
    assert first.name not in gang.reason.message
    assert waiting[first.name].reservation is not None
    assert "Later work of its pool waits until it has started." in waiting[first.name].reservation.message


def test_the_setting_is_audited_and_bounded(fake_harness: AgentHarness) -> None:
    from pools.domain.errors import BadInput

    before = AuditEntry.objects.count()
    hold(fake_harness)
    entry = AuditEntry.objects.order_by("-id").first()
    assert entry is not None
    assert (AuditEntry.objects.count() > before, entry.after["config"]["hold_after"]) == (True, HOUR)
    for wrong in (-1, 1.5, "soon", 31 * 86_400 + 1):
        with pytest.raises(BadInput):
            hold(fake_harness, wrong)  # type: ignore[arg-type]


def test_all_gangs_that_hold_work_back_are_named(fake_harness: AgentHarness) -> None:
    """The first LOW gang of a leaf and the first NORMAL gang of another one: LOW work of the leaf waits for both, in
    the reason, in a question that ends one of them, and in the effect of a cancellation."""
    world.make_subpool("team", "part", 80)
    low, normal = big(fake_harness, priority=Priority.LOW), big(fake_harness, to="team--part")
    hold(fake_harness)
    later = fake_harness.submit(gpus=1, priority=Priority.LOW)
    fake_harness.run_agent()
    assert not is_sent(fake_harness, later)
    (gang,) = [each for each in list_waiting_gangs(world.admin_actor(), limit=10)[0] if each.workflow == later.name]
    assert set(gang.holders) == {low.name, normal.name}
    assert gang.unblock[0].startswith("The gangs that come first, all 2 of them, start or are cancelled (")
    assert "2 gangs of its pool have waited since" in gang.reason.message
    assert "until all 2 of them have started" in gang.reason.message
    for ended, starts in (([low], False), ([normal], False), ([low, normal], True)):
        impact = read_cancel_impact(world.admin_actor(), ended)
        assert (impact is not None and impact.starting.names == (later.name,)) is starts, ended
        changes = [{"finish": [each.name for each in ended]}]
        answer = answer_live_question(world.admin_actor(), {"live": True, "changes": changes})
        assert (answer["workloads"][later.name]["state"] == "running") is starts, ended


def test_a_forecast_lets_held_work_start_after_the_gang(fake_harness: AgentHarness) -> None:
    hold(fake_harness)
    running = [fake_harness.submit(gpus=30) for _ in range(2)]
    fake_harness.run_agent()
    fake_harness.run_pods(*(pod for each in running for pod in fake_harness.list_pods(each)))
    fake_harness.run_agent()
    first, later = big(fake_harness), fake_harness.submit(gpus=1)
    for is_held in (True, False):
        facts = read_forecast_facts(fake_harness.backend)
        assert facts is not None
        assert facts.present.held == ({later.name: {"default": (first.name,)}} if is_held else {})
        (waits,) = sample_waits(facts.present, facts.waiting, [1])
        assert (waits[later.name] >= waits[first.name]) is is_held
        hold(fake_harness, None)


def test_a_dry_run_knows_that_the_work_would_be_held(fake_harness: AgentHarness) -> None:
    actor = world.admin_actor()
    submissions = [Submission(world.workflow_file("new", 1))]
    submission = prepare_submissions(actor=actor, pool="team", submissions=submissions)
    big(fake_harness)
    (start,) = starts_if_submitted(actor, submission)
    assert start is not None
    assert start.is_now
    hold(fake_harness)
    (start,) = starts_if_submitted(actor, submission)
    assert start is not None
    assert not start.is_now


def test_a_live_question_keeps_held_work_waiting(fake_harness: AgentHarness) -> None:
    """Work that the question submits too, until the question ends the gang that comes first."""
    hold(fake_harness)
    first, later = big(fake_harness), fake_harness.submit(gpus=1)
    submit = {"submit": {"name": "new", "queue": "team", "tasks": [{"name": "t", "resources": {"gpu": 1}}]}}

    def ask(*changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = answer_live_question(world.admin_actor(), {"live": True, "changes": [*changes]})
        return found["workloads"]

    held = ask(submit)
    assert [held[name]["reason"]["code"] for name in (later.name, "new")] == ["held_back"] * 2
    ended = ask(submit, {"finish": [first.name]})
    assert [ended[name]["state"] for name in (later.name, "new")] == ["running"] * 2
    impact = read_cancel_impact(world.admin_actor(), [first])
    assert impact is not None
    assert impact.starting.names == (later.name,)


def test_the_check_costs_a_query_or_two_where_nothing_is_held(
    fake_harness: AgentHarness, django_assert_num_queries: Any
) -> None:
    first = fake_harness.submit(gang_file("lead", "other", gpus=40))
    fake_harness.run_agent()
    for setting, queries in ((None, 1), (HOUR, 2)):
        hold(fake_harness, setting)
        live = read_live_facts(fake_harness.backend)
        with django_assert_num_queries(queries):
            assert not read_dispatch_holds(fake_harness.backend).holders
        with django_assert_num_queries(queries - 1):
            assert not read_dispatch_holds(fake_harness.backend, live).holders
    has_waited(first)
    assert list(read_dispatch_holds(fake_harness.backend).names.values()) == [first.name]
