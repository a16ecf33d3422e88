"""Work with `any_of`: how it is written, what is refused, and what the answer says."""

from __future__ import annotations

import pytest

from osmo_admin.cli.local.offline_text import simulation_text
from scheduling.scenario import ScenarioError, answer, parse_scenario_text
from scheduling.scenario.redact import redact_facts

TWO = """
nodes:
  - {name: h, resources: {h100/gpu: 4}}
  - {name: a, resources: {a100/gpu: 4}}
queues:
  - {name: q, quota: {h100/gpu: 4, a100/gpu: 4}SWITCHES}
workloads:
  - name: w
    queue: q
    KEYS
    tasks: [LINES]
"""


def text_of(lines, keys="", switches=""):
    return TWO.replace("LINES", lines).replace("KEYS", keys).replace("SWITCHES", switches)


def test_each_line_has_the_entry_of_the_choice():
    lines = "{count: 2, any_of: [{h100/gpu: 3}, {a100/gpu: 1}]}, {any_of: [{h100/gpu: 1, cpu: 2}, {}]}"
    got = answer(text_of(lines))
    assert got["workloads"]["w"]["choice"] == 2
    assert {task["node"] for task in got["workloads"]["w"]["tasks"].values()} <= {"a", "h"}
    assert got["queues"]["q"]["usage"] == {"a100/gpu": 2, "default/cpu": 0, "h100/gpu": 0}
    assert "(a100)" not in simulation_text(got).split("WORKLOADS")[0]


def test_running_work_says_which_entry_it_has():
    line = "{any_of: [{h100/gpu: 4}, {a100/gpu: 4}], node: a}"
    got = answer(text_of(line, "state: running\n    choice: 2"))
    work = got["workloads"]["w"]
    assert (work["choice"], work["choices"], got["steps"]) == (2, ["h100", "a100"], [])
    assert "a (a100)" in simulation_text(got)


def test_the_switches_are_read():
    (queue,) = parse_scenario_text(
        text_of("{gpus: 1}", switches=", when_can_borrow: next, when_can_preempt: preempt")
    ).facts.queues
    assert (queue.when_can_borrow, queue.when_can_preempt) == ("next", "preempt")


@pytest.mark.parametrize(
    ("lines", "keys", "path"),
    [
        ("{any_of: []}", "", "workloads[0].tasks[0].any_of"),
        ("{any_of: 4}", "", "workloads[0].tasks[0].any_of"),
        ("{any_of: [{h100/gpu: -1}]}", "", "workloads[0].tasks[0].any_of[0].h100/gpu"),
        ("{gpus: 1, any_of: [{gpu: 1}]}", "", "workloads[0].tasks[0].any_of"),
        ("{any_of: [{gpu: 1}, {gpu: 2}]}, {gpus: 1}", "", "workloads[0].tasks[1].any_of"),
        ("{any_of: [{gpu: 1}, {gpu: 2}]}", "choice: 3", "workloads[0].choice"),
        ("{gpus: 1}", "choice: 2", "workloads[0].choice"),
    ],
)
def test_faults_name_the_place(lines, keys, path):
    with pytest.raises(ScenarioError) as refused:
        answer(text_of(lines, keys))
    assert path in {fault.path for fault in refused.value.details}


def test_a_switch_below_a_queue_has_no_effect_and_says_so():
    def no_effect(switches):
        text = text_of("{gpus: 1}", switches=switches)
        text = text.replace("queues:", "queues:\n  - {name: top}").replace("{name: q,", "{name: q, parent: top,")
        return [each["path"] for each in answer(text)["violations"] if each["code"] == "no_effect"]

    assert no_effect("") == no_effect(", when_can_borrow: borrow") == []
    assert no_effect(", when_can_borrow: next") == ["queues[1].when_can_borrow"]


def test_a_wrong_switch_is_refused():
    with pytest.raises(ScenarioError) as refused:
        answer(text_of("{gpus: 1}", switches=", when_can_borrow: never"))
    assert [fault.path for fault in refused.value.details] == ["queues[0].when_can_borrow"]


def test_finished_work_has_no_choice():
    text = text_of("{any_of: [{h100/gpu: 4}, {a100/gpu: 4}]}") + "changes: [{finish: w}]\n"
    assert answer(text)["workloads"]["w"]["state"] == "finished"


def test_hidden_work_keeps_its_choices_and_loses_its_names():
    facts = parse_scenario_text(text_of("{name: secret, any_of: [{h100/gpu: 4}, {a100/gpu: 4}]}")).facts
    (hidden,) = redact_facts(facts, queues=["q"], cohorts=[], gangs=[]).gangs
    assert "secret" not in repr(hidden)
    assert [tasks[0].request for tasks in hidden.choices] == [{"h100/gpu": 4}, {"a100/gpu": 4}]


def test_a_lost_node_breaks_quotas_by_kind():
    text = text_of("{any_of: [{h100/gpu: 4}, {a100/gpu: 4}], node: h}", "state: running")
    got = answer(text + "changes: [{remove_node: h}]\n")
    assert got["loss"]["guarantees"] == [
        {"queue": "q", "quota": 4, "held_before": 4, "held": 0, "missing": 4, "flavor": "h100"}
    ]
    assert got["workloads"]["w"]["choice"] == 2
    assert "q: 0 of 4 h100 GPUs, 4 missing" in simulation_text(got)
