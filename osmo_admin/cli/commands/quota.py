"""`osmo quota`: GPU quota by namespace (TFLOPS, memory, workers), and the counted workers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_namespaces
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.output import print_answer, print_list
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.tables import Shown, plain_number
from osmo_admin.cli.base.times import format_local_time as shown_time
from osmo_admin.cli.base.yaml_files import parse_amounts, parse_number, read_text_file, read_yaml_text
from osmo_admin.cli.changes import TypedChange, change_command
from osmo_admin.cli.lists import list_command
from osmo_admin.cli.text.quota_text import (
    fits_message,
    quota_facts,
    quota_table,
    repairs_table,
    summarize_caps,
)
from pools.domain.changes.gpu_allocations import AdjustWorker, AllocateWorker, CommitWorker, ReleaseWorker
from pools.domain.changes.gpu_quotas import DeleteGpuQuota, PutGpuQuota
from pools.domain.columns import pick
from pools.domain.gpu_quota.spec import PARTS, SPEC_FIELDS
from pools.domain.list_columns import WORKER_COLUMNS
from pools.domain.lists import GpuAllocationQuery
from pools.domain.structured_input.config_fields import ConfigField
from pools.domain.structured_input.declared_values import fields_of

app = command_group("GPU quota by namespace: TFLOPS, memory and workers.")

AMOUNTS_METAVAR = "tflops=N,vram=SIZE"
REMOVE_CAP = "none"
_NUMBER = re.compile(r"-?[0-9]{1,18}")

NamespaceArgument = Annotated[
    str, typer.Argument(metavar="NAMESPACE", help="Namespace of the quota.", autocompletion=complete_namespaces)
]
_ABOUT = fields_of(AllocateWorker)
RequestOption = Annotated[str | None, typer.Option("--request", metavar=AMOUNTS_METAVAR, help=_ABOUT["request"].help)]
WorkerLimitOption = Annotated[
    str | None, typer.Option("--limit-to", metavar=AMOUNTS_METAVAR, help=_ABOUT["limit"].help)
]
GpusOption = Annotated[int, typer.Option("--gpus", "-g", help=_ABOUT["count"].help)]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", help="Take the whole spec from this YAML or JSON file (a GPUResourceQuota, or its spec)."
    ),
]
_CAPS = {"max_gpus" if each.input == "max_gpu_count" else each.input: each for each in SPEC_FIELDS}
"""The caps by the names of their options."""


def _cap_option(name: str, about: ConfigField) -> Any:
    metavar = "N" if about.looks == "number" else AMOUNTS_METAVAR
    option = typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=f"{about.help} `none` removes it.")
    return Annotated[str | None, option]


_SET_OPTIONS = {"file": FileOption, **{name: _cap_option(name, each) for name, each in _CAPS.items()}}


def _allocation_url(namespace: str, *more: str) -> str:
    return url_path("api", "gpu_quota", namespace, "allocation", *more)


def _quota_url(namespace: str) -> str:
    return url_path("api", "configs", "gpu_quota", namespace)


def _worker_amounts(request: str | None, limit: str | None) -> dict[str, Any]:
    sides = {"request": request, "limit": limit}
    return {side: parse_amounts(text) for side, text in sides.items() if text is not None}


@client_command(app, "list", watches=True)
def list_(session: ClientSession) -> None:
    """List the visible quotas with their use and status.

    Example: osmo quota list
    """
    answer = session.http().get("api/configs/gpu_quota")
    print_answer(session, answer, lambda: quota_table(answer["quotas"]))


@client_command(app, "show")
def show(session: ClientSession, *, namespace: NamespaceArgument) -> None:
    """Show the quota of a namespace: caps, use, free amounts, conditions.

    Example: osmo quota show team-a
    """
    answer = session.http().get(_quota_url(namespace))
    print_answer(session, answer, lambda: quota_facts(answer))


@change_command(app, "set", PutGpuQuota, options=_SET_OPTIONS)
def set_(session: ClientSession, change: TypedChange) -> None:
    """Create or change the quota of a namespace. Caps and amounts that are not named stay; `vram=none` removes one
    amount. A file replaces the spec as a whole.

    A cap may be below the current use: workers stay, and new ones are refused until enough is free.

    Example: osmo quota set team-a --requests tflops=4000,vram=640Gi --max-workers 16
    """
    caps: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for name, each in _CAPS.items():
        if change[name] is not None:
            caps[each.key.partition(".")[0]][each.column] = change[name]
    file, address = change["file"], _quota_url(change["namespace"])
    if file is not None and any(caps.values()):
        raise ClientError("Name a file with the whole spec or single caps, not both.")
    if file is not None:
        spec = _read_spec_file(file)
    else:
        before = _fetch_current(session.http(), change["namespace"])
        if before is not None:
            change = replace(change, if_match=change.if_match or str(before["version"]))
        spec = apply_cap_changes({} if before is None else before["spec"], caps)
    change.show(change.send("PUT", address, {"spec": spec}), quota_facts, summarize_caps)


def apply_cap_changes(spec: dict[str, Any], changes: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The spec with these caps set, or removed for `none`. Of two amounts the one that is not named stays."""
    result = {part: dict(spec.get(part) or {}) for part in PARTS}
    numbers = {each.column for each in SPEC_FIELDS if each.looks == "number"}
    for part, keys in changes.items():
        for key, text in keys.items():
            if text == REMOVE_CAP:
                value: Any = None
            elif key in numbers:
                value = parse_number(text)
            else:
                both = {**(result[part].get(key) or {}), **parse_amounts(text)}
                value = {resource: amount for resource, amount in both.items() if amount != REMOVE_CAP}
            result[part] = {**result[part], key: value}
            if value in (None, {}):
                del result[part][key]
    return result


def _fetch_current(http: Any, namespace: str) -> Any:
    try:
        return http.get(_quota_url(namespace))
    except ClientError as error:
        if error.status == 404:
            return None
        raise


def _read_spec_file(file: Path) -> Any:
    try:
        text = read_text_file(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"The file {file} cannot be read: {error}.") from error
    document = read_yaml_text(text, str(file))
    return document["spec"] if isinstance(document, dict) and "spec" in document else document


@change_command(app, "delete", DeleteGpuQuota, confirms=True)
def delete(session: ClientSession, change: TypedChange) -> None:
    """Delete the quota of a namespace. Its workers stay and are still counted.

    Example: osmo quota delete team-a --dry-run
    """
    namespace = change["namespace"]
    address = _quota_url(namespace)
    change.confirm(f"Delete the GPU quota of {namespace}?", "DELETE", address, summarize_caps)
    text = f"The GPU quota of {namespace} is deleted; nothing limits its workers now."
    change.show(change.send("DELETE", address), lambda _: text, summarize_caps)


@list_command(app, "allocations", GpuAllocationQuery)
def allocations(session: ClientSession, query: dict[str, Any], *, namespace: NamespaceArgument) -> None:
    """List the workers of a namespace, the newest first.

    Example: osmo quota allocations team-a --released
    """
    answer = session.http().get(_allocation_url(namespace), query)
    columns = pick(WORKER_COLUMNS, "id workload gpus request limit state source counted")
    rows = [
        {**each, **{side: _size_cell(each[side]) for side in ("request", "limit")}} for each in answer["allocations"]
    ]
    print_list(session, answer, columns, rows, f"No workers in {namespace}.")


def _size_cell(amounts: dict[str, Any]) -> Shown:
    return Shown(
        f"{amounts['tflops']}, {amounts['vram']}", (plain_number(amounts["tflops"]), plain_number(amounts["vram"]))
    )


@change_command(app, "allocate", AllocateWorker)
def allocate(_: ClientSession, change: TypedChange) -> None:
    """Allocate one worker if every cap allows it. Repeating the command with the same id changes nothing.

    Example: osmo quota allocate team-a worker-1 --request tflops=60,vram=16Gi --gpus 2
    """
    change.show(change.send("POST", _allocation_url(change["namespace"])), _worker_message)


@change_command(app, "adjust", AdjustWorker)
def adjust(_: ClientSession, change: TypedChange) -> None:
    """Change the amounts of a worker per GPU. Amounts that are not named stay; a decrease is never refused.

    Example: osmo quota adjust team-a worker-1 --request tflops=30
    """
    change.show(change.send("PATCH", _allocation_url(change["namespace"], change["id"])), _worker_message)


@change_command(app, "commit", CommitWorker)
def commit(_: ClientSession, change: TypedChange) -> None:
    """Commit a reservation: it becomes a worker.

    Example: osmo quota commit team-a worker-1
    """
    change.show(change.send("POST", _allocation_url(change["namespace"], change["id"], "commit")), _worker_message)


@change_command(app, "release", ReleaseWorker)
def release(_: ClientSession, change: TypedChange) -> None:
    """Release a worker. Releasing it again changes nothing.

    Example: osmo quota release team-a worker-1
    """
    change.show(change.send("DELETE", _allocation_url(change["namespace"], change["id"])), _worker_message)


@client_command(app, "rebuild")
def rebuild(
    session: ClientSession,
    *,
    namespace: Annotated[
        str | None,
        typer.Argument(
            metavar="NAMESPACE", help="Only this namespace. Default: all.", autocompletion=complete_namespaces
        ),
    ] = None,
) -> None:
    """Align the ledger with the pods of all clusters, recount it, and list the repairs.

    Example: osmo quota rebuild team-a
    """
    body = {"namespace": namespace} if namespace else None
    answer = session.http().send_change("POST", "api/gpu_quota/rebuild", body=body)
    print_answer(session, answer, lambda: repairs_table(answer))


@client_command(app, "fits")
def fits(
    session: ClientSession,
    *,
    namespace: NamespaceArgument,
    request: RequestOption = None,
    limit: WorkerLimitOption = None,
    gpus: GpusOption = 1,
) -> None:
    """Show the number of further workers of a size that fit, and the caps that refuse the next one.

    Example: osmo quota fits team-a --request tflops=60,vram=16Gi
    """
    sizes = _worker_amounts(request, limit).items()
    query = {f"{side}_{key}": value for side, amounts in sizes for key, value in amounts.items()}
    answer = session.http().get(url_path("api", "gpu_quota", namespace, "room"), query | {"count": gpus})
    print_answer(session, answer, lambda: fits_message(answer))


def _worker_message(answer: dict[str, Any]) -> str:
    name = f"Worker {answer['id']} in {answer['namespace']}"
    if answer["state"] == "released":
        return f"{name} is released."
    sides = ("request", "limit")
    size = ", ".join(f"{side} {answer[side]['tflops']} TFLOPS and {answer[side]['vram']}" for side in sides)
    until = f" until {shown_time(answer['expires'])}" if answer["state"] == "assumed" else ""
    count = answer["count"]
    gpus = "1 GPU with" if count == 1 else f"{count} GPUs, each with"
    return f"{name} is {answer['state']}{until}: {gpus} {size}."
