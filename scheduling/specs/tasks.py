"""One task of a file -> `TaskSpec`."""

from __future__ import annotations

from dataclasses import dataclass

from pools.domain.errors import Fault
from pools.domain.structured_input.faults import join_words, quote
from scheduling.domain.workflow_spec import TaskSpec
from scheduling.specs import task_data as data
from scheduling.specs.exit_actions import read_exit_actions
from scheduling.specs.name_rules import UniqueNames
from scheduling.specs.resources import ResourceEntry, find_platform_rules
from scheduling.specs.rules import PlatformRules, SpecRules
from scheduling.specs.yaml_cursor import YamlCursor

_FIELDS = (
    "name",
    "image",
    "command",
    "args",
    "environment",
    "resource",
    "lead",
    "inputs",
    "outputs",
    "files",
    "credentials",
    "exitActions",
    "privileged",
    "hostNetwork",
    "volumeMounts",
    *data.UNUSED,
)


@dataclass(frozen=True, slots=True)
class ParsedTask:
    """A task, with the cursors for faults of rules about several tasks."""

    spec: TaskSpec
    cursor: YamlCursor
    inputs: YamlCursor | None


def read_task(
    place: YamlCursor, resources: dict[str, ResourceEntry], names: UniqueNames, rules: SpecRules
) -> ParsedTask:
    """One task; after faults its spec serves only to find further ones."""
    found = place.known_fields(_FIELDS, required=("name", "image", "command"))
    name = names.claim_name(found.get("name"))
    resource_name, resource = _resource(found.get("resource"), resources, place)
    mounts = data.read_mounts(found.get("volumeMounts"))
    task = TaskSpec(
        name=name,
        image=read_image(found.get("image")),
        command=_command(found.get("command")),
        args=found["args"].texts() if "args" in found else (),
        environment=data.read_environment(found.get("environment")),
        resource=resource_name,
        gpu=resource.gpu,
        cpu=resource.cpu,
        memory_bytes=resource.memory,
        storage_bytes=resource.storage,
        platform=resource.platform,
        lead=_read_flag(found, "lead"),
        credentials=data.read_credentials(found.get("credentials")),
        exit_actions=read_exit_actions(found.get("exitActions"), rules.exit_actions, place.faults),
        inputs=data.read_inputs(found.get("inputs")),
        outputs=data.read_outputs(found.get("outputs")),
        files=data.read_files(found.get("files")),
        privileged=_read_flag(found, "privileged"),
        host_network=_read_flag(found, "hostNetwork"),
        volume_mounts=tuple(text for _, text in mounts),
        nodes_excluded=resource.nodes_excluded,
        topology=resource.topology,
        gpu_flavors=resource.gpu_flavors,
    )
    data.check_unused(found)
    if resource_name in resources:
        _check_platform(task, find_platform_rules(resource, place, rules), found, mounts)
    return ParsedTask(task, place, found.get("inputs"))


def _resource(
    place: YamlCursor | None, resources: dict[str, ResourceEntry], task: YamlCursor
) -> tuple[str, ResourceEntry]:
    name = (place.text() if place is not None else None) or "default"
    if name in resources:
        return name, resources[name]
    if place is None:
        task.faults.add(
            f"{task.path}.resource",
            Fault.UNKNOWN_RESOURCE,
            "The task names no resource, and the file defines none "
            f'called "default", only {join_words(resources) or "none at all"}. Add `resource:` to the task.',
            task.line,
        )
    elif not place.is_absent:
        place.add_fault(
            Fault.UNKNOWN_RESOURCE,
            f"The file does not define this resource.{place.faults.suggestion(name, resources)} "
            f"It defines {join_words(resources) or 'none'}.",
        )
    return name, ResourceEntry(None)


def _check_platform(
    task: TaskSpec,
    platform: PlatformRules | None,
    found: dict[str, YamlCursor],
    mounts: tuple[tuple[YamlCursor, str], ...],
) -> None:
    if platform is None:
        return
    name = quote(task.platform or "")
    if task.privileged and not platform.privileged_allowed:
        found["privileged"].add_fault(
            Fault.NOT_ALLOWED,
            f"Platform {name} does not allow privileged tasks. Remove the key, or choose another platform.",
        )
    if task.host_network and not platform.host_network_allowed:
        found["hostNetwork"].add_fault(
            Fault.NOT_ALLOWED,
            f"Platform {name} does not allow the host's network. Remove the key, or choose another platform.",
        )
    for item, mount in mounts:
        if mount.partition(":")[0] not in platform.allowed_mounts:
            item.add_fault(
                Fault.NOT_ALLOWED,
                f"Platform {name} does not allow this mount; it allows "
                f"{join_words(sorted(platform.allowed_mounts)) or 'nothing'}.",
            )


def read_image(place: YamlCursor | None) -> str:
    """A container image; an empty text after a fault."""
    image = (place.text() if place is not None else None) or ""
    if place is not None and any(character.isspace() for character in image):
        place.add_fault(
            Fault.BAD_IMAGE, "This is not a container image: it holds a blank. Write for example ubuntu:24.04."
        )
    return image


def _command(place: YamlCursor | None) -> tuple[str, ...]:
    if place is None:
        return ()
    if place.is_empty_list:
        place.add_fault(Fault.EMPTY, "The command is an empty list; a task needs one. Write for example [bash, -c].")
    return place.texts("texts, the program first")


def _read_flag(found: dict[str, YamlCursor], name: str) -> bool:
    return found[name].boolean(False) if name in found else False
