"""The whole file -> `WorkflowSpec`: top level, groups, times, and the rules about several tasks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import Faults, join_words, quote, shorten
from pools.domain.values.counting import counted
from pools.domain.values.durations import MAX_DURATION, parse_duration
from scheduling.domain.workflow_spec import GroupSpec, TaskSpec, WorkflowSpec
from scheduling.specs.group_cycles import find_cycle
from scheduling.specs.labels import check_labels
from scheduling.specs.name_rules import UniqueNames, read_name
from scheduling.specs.rendering.sections import DEFAULT_VALUES_KEY
from scheduling.specs.resources import ResourceEntry, read_resources, warn_of_unused_resources
from scheduling.specs.rules import SpecRules
from scheduling.specs.tasks import ParsedTask, read_task
from scheduling.specs.yaml_cursor import YamlCursor, iterate_items
from scheduling.structured_yaml.nodes import Node

_TOP = ("workflow", "version", DEFAULT_VALUES_KEY)
# `pool` and `backend` may be in a file and have no effect (design, O7.3).
_WORKFLOW = ("name", "tasks", "groups", "resources", "timeout", "labels", "pool", "backend")
_GROUP = ("name", "tasks", "barrier", "ignoreNonleadStatus")

ParsedGroup = tuple[GroupSpec, YamlCursor, list[ParsedTask]]


def read_workflow_file(node: Node, rules: SpecRules, faults: Faults) -> WorkflowSpec:
    """The spec; it is valid only if no fault was noted."""
    found = YamlCursor(node, "", node.line, faults).known_fields(_TOP, required=("workflow",))
    version = found.get("version")
    if version is not None and version.plain_value not in (2, "2"):
        version.add_fault(Fault.BAD_VERSION, "Only version 2 is known. Write 2, or leave the key out.")
    if "workflow" not in found:
        return WorkflowSpec("", ())
    return _workflow(found["workflow"], rules, faults)


def _workflow(place: YamlCursor, rules: SpecRules, faults: Faults) -> WorkflowSpec:
    found = place.known_fields(_WORKFLOW, required=("name",))
    for name in ("pool", "backend"):
        if name in found:
            found[name].add_warning("it is not used here: the work goes to the pool that it is submitted to.")
    resources = read_resources(found.get("resources"), rules)
    groups = _groups(place, found, resources, rules)
    tasks = [task for _, _, members in groups for task in members]
    if len(tasks) > rules.max_tasks:
        place.add_fault(
            Fault.TOO_MANY_TASKS,
            f"The workflow has {len(tasks)} tasks; at most {rules.max_tasks} are allowed. "
            "Split it into several workflows.",
        )
    warn_of_unused_resources(resources, {task.spec.resource for task in tasks})
    exec_timeout, queue_timeout = _timeouts(found.get("timeout"), rules)
    return WorkflowSpec(
        name=read_name(found.get("name")),
        groups=_with_inputs(groups),
        exec_timeout=exec_timeout,
        queue_timeout=queue_timeout,
        labels=_labels(found.get("labels"), faults),
    )


def _groups(
    place: YamlCursor, found: dict[str, YamlCursor], resources: dict[str, ResourceEntry], rules: SpecRules
) -> list[ParsedGroup]:
    given = [name for name in ("tasks", "groups") if name in found]
    if len(given) != 1:
        place.add_fault(
            Fault.TASKS_OR_GROUPS,
            f"The workflow has {'both' if given else 'neither'} `tasks` {'and' if given else 'nor'} "
            "`groups`; exactly one is needed. Write `tasks` for tasks without a group.",
        )
    names = UniqueNames()
    read: list[ParsedGroup] = []
    for name in given:
        items = found[name].list_items(name)
        if not items and found[name].is_empty_list:
            found[name].add_fault(
                Fault.EMPTY, f"The list of {name} is empty. Add one, or correct the template that made none."
            )
        for item in items:
            if name == "groups":
                read.append(_group(item, resources, names, rules))
            else:
                task = read_task(item, resources, names, rules)
                read.append((GroupSpec(f"{task.spec.name}-group", (_as_lead(task.spec),)), item, [task]))
    return read


def _group(place: YamlCursor, resources: dict[str, ResourceEntry], names: UniqueNames, rules: SpecRules) -> ParsedGroup:
    found = place.known_fields(_GROUP, required=("name", "tasks"))
    name = names.claim_name(found.get("name"))
    tasks = [read_task(item, resources, names, rules) for item in iterate_items(found.get("tasks"), "tasks")]
    leads = [task for task in tasks if task.spec.lead]
    if "tasks" in found and found["tasks"].is_empty_list:
        found["tasks"].add_fault(Fault.EMPTY, f"The group {quote(name)} has no task. Add one, or remove the group.")
    elif len(tasks) > 1 and len(leads) != 1:
        lead_names = f" ({join_words(task.spec.name for task in leads)})" if leads else ""
        found["tasks"].add_fault(
            Fault.LEADS,
            f"The group {quote(name)} has {counted(len(leads), 'lead task')}{lead_names}; exactly one of its "
            f"{len(tasks)} tasks needs `lead: true`.",
        )
    specs = [_as_lead(tasks[0].spec)] if len(tasks) == 1 else [task.spec for task in tasks]
    if "barrier" in found:
        found["barrier"].boolean(True)
        found["barrier"].add_warning(
            "it is not used here: the pods of a group are started together, and no command waits for the others."
        )
    ignore = found["ignoreNonleadStatus"].boolean(True) if "ignoreNonleadStatus" in found else True
    return GroupSpec(name, tuple(specs), ignore), place, tasks


def _as_lead(task: TaskSpec) -> TaskSpec:
    """The task as the lead of its group: an only task is always the lead."""
    return replace(task, lead=True)


def _with_inputs(groups: list[ParsedGroup]) -> tuple[GroupSpec, ...]:
    """The groups with the groups they wait for; unknown tasks, a group waiting for itself and cycles are faults."""
    home = {task.spec.name: group.name for group, _, members in groups for task in members if task.spec.name}
    made = []
    for group, place, members in groups:
        upstream: dict[str, None] = {}
        for task in members:
            at = task.inputs or place
            for name in task.spec.upstream_tasks:
                if name not in home:
                    at.add_fault(
                        Fault.UNKNOWN_TASK,
                        f"Task {quote(task.spec.name)} reads from a task that the file "
                        f"does not have.{place.faults.suggestion(name, home)}",
                    )
                elif home[name] == group.name:
                    at.add_fault(
                        Fault.OWN_GROUP,
                        f"Task {quote(task.spec.name)} reads from task {quote(name)} of its own group; they run "
                        "at the same time. Put one of them into another group.",
                    )
                else:
                    upstream[home[name]] = None
        made.append(replace(group, inputs=tuple(upstream)))
    cycle = find_cycle({group.name: group.inputs for group in made})
    if cycle:
        at = next(place for group, place, _ in groups if group.name == cycle[0])
        path = shorten(" → ".join(f'"{name}"' for name in (*cycle, cycle[0])), 300)
        at.add_fault(Fault.CYCLE, f"These groups wait for each other in a cycle: {path}. Remove one of the inputs.")
    return tuple(made)


def _timeouts(place: YamlCursor | None, rules: SpecRules) -> tuple[timedelta | None, timedelta | None]:
    found = place.known_fields(("exec_timeout", "queue_timeout")) if place is not None else {}
    return (
        _timeout(found.get("exec_timeout"), rules.default_exec_timeout, rules.max_exec_timeout),
        _timeout(found.get("queue_timeout"), rules.default_queue_timeout, rules.max_queue_timeout),
    )


def _timeout(place: YamlCursor | None, default: timedelta | None, longest: timedelta | None) -> timedelta | None:
    text = place.text() if place is not None else None
    if place is None or text is None:
        return default
    requested = parse_duration(text)
    if requested is None:
        place.add_fault(
            Fault.BAD_DURATION,
            f"This is not a time; allowed is a number with d, h, m, s, ms or us (no unit: seconds), "
            f"at most {MAX_DURATION.days} days. Write for example 8h.",
        )
        return default
    if not requested:
        place.add_warning("0 means no limit of its own; the pool's default applies.")
        return default
    if longest is not None and requested > longest:
        place.add_warning(f"the time is more than the pool allows; it is cut to {longest}.")
        return longest
    return requested


def _labels(place: YamlCursor | None, faults: Faults) -> dict[str, str]:
    if place is None:
        return {}
    labels = place.text_map("key: value")
    lines = {name: entry.file_line for name, entry in place.map_entries("").items()}
    for fault in check_labels(labels, place.path, lines):
        faults.add(fault.path, fault.code, fault.message, fault.line)
    return labels
