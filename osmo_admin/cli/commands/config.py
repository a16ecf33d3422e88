"""`osmo config`: the configuration of pools and of the service, and its history."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer

from osmo_admin.cli.base.client_errors import ClientError
from osmo_admin.cli.base.command_decorator import client_command, command_group
from osmo_admin.cli.base.completion import complete_config_names
from osmo_admin.cli.base.http import url_path
from osmo_admin.cli.base.options import (
    DescriptionOption,
    OrderOption,
    RequestApprovalOption,
    SortOrder,
    TagsOption,
)
from osmo_admin.cli.base.output import confirm, print_answer, print_list, serialize
from osmo_admin.cli.base.session import ClientSession, OutputFormat, print_warning
from osmo_admin.cli.base.tables import first_of, format_cell
from osmo_admin.cli.base.yaml_files import read_map_file
from osmo_admin.cli.changes import TypedChange
from osmo_admin.cli.config_difference import UNCHANGED, find_changes
from osmo_admin.cli.lists import list_command
from pools.domain.changes.pools import DeletePool, PutPool
from pools.domain.list_columns import REVISION_COLUMNS
from pools.domain.lists import RevisionQuery

app = command_group("Configuration of pools and of the service.")
NAMED_POOLS = 3  # the most in a message
POOL, WORKFLOW, BACKEND = "POOL", "WORKFLOW", "BACKEND"

TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="POOL, WORKFLOW or BACKEND.")]
NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Name of the object.", autocompletion=complete_config_names)
]


@client_command(app, "show")
def show(
    session: ClientSession,
    *,
    config: Annotated[
        str, typer.Argument(metavar="TYPE[:REVISION]", help="POOL, WORKFLOW, BACKEND, or POOL:3 for a revision.")
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Path to a part: the pool, then its keys.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Include derived values.")] = False,
) -> None:
    """Print a configuration as JSON (or -o yaml), whole or a part of it.

    Example: osmo config show POOL vision
    """
    kind, _, revision = config.partition(":")
    if revision:
        data = _fetch_revision(session, kind.upper(), revision)
    else:
        data = session.http().get(url_path("api", "configs", kind.lower()), {"verbose": True} if verbose else {})
    for name in names or []:
        data = _select_part(_index_by_name(data), name)
    print_answer(session, data, lambda: serialize(data, OutputFormat.JSON))


def _fetch_revision(session: ClientSession, kind: str, revision: str) -> Any:
    if not revision.isdecimal():
        raise ClientError(f"A revision is a number: {kind}:3.")
    query = {"config_types": [kind], "omit_data": False, "revision": int(revision)}
    entries = session.http().get("api/configs/history", query)["configs"]
    if not entries:
        raise ClientError(f"There is no revision {revision} of {kind}. osmo config history {kind} lists them.")
    return entries[0]["data"]


def _index_by_name(data: Any) -> Any:
    """The objects by their names, without the wrapper of the answer."""
    for wrapper in ("pools", "backends"):
        if isinstance(data, dict) and isinstance(data.get(wrapper), dict | list):
            data = data[wrapper]
    if isinstance(data, list) and data and all(isinstance(each, dict) and "name" in each for each in data):
        return {each["name"]: each for each in data}
    return data


def _select_part(data: Any, name: str) -> Any:
    if isinstance(data, dict) and name in data:
        return data[name]
    if isinstance(data, list) and name.isdecimal() and int(name) < len(data):
        return data[int(name)]
    if not isinstance(data, dict) or not data:
        raise ClientError("There is nothing of this name here.")
    near = get_close_matches(name, map(str, data), n=1)
    meant = f" Did you mean {near[0]}?" if near else f" There are: {format_cell(first_of(list(data)))}."
    raise ClientError(f"There is nothing of this name here.{meant}")


@client_command(app, "update", writes=True, short_t=False)
def update(
    session: ClientSession,
    *,
    config: TypeArgument,
    name: NameArgument = None,
    file: Annotated[
        str, typer.Option("--file", "-f", help="JSON or YAML file with the changed values, - for standard input.")
    ] = "-",
    description: DescriptionOption = None,
    tags: TagsOption = None,
    request_approval: RequestApprovalOption = False,
) -> None:
    """Change a configuration to the values of a file. With NAME, values that the file leaves out stay.

    `osmo config update POOL -f FILE` with `{"pools": {NAME: …}}` creates pools, and REPLACES the whole configuration of
    the pools that exist: what the file leaves out of a pool gets its default. Pools that the file does not name stay.

    Example: osmo config update POOL vision -f vision.yaml --dry-run
    """
    kind = config.upper()
    desired = read_map_file(file)
    http = session.http()
    address = url_path("api", "configs", kind.lower(), *([name] if name else []))
    method, key, payload = _build_request(kind, name, desired)
    if kind == BACKEND and "type" not in desired:
        _require_cluster(session, str(name))
    if method == "PATCH":
        current = http.get(url_path("api", "configs", kind.lower()))
        payload = find_changes(_select_part(_index_by_name(current), name) if name else current, desired)
        if payload is UNCHANGED:
            print_answer(session, None, lambda: "No changes were made to the config.")
            return
    change = TypedChange(session, PutPool, {}, description, request_approval)
    body = ({key: payload} if key else payload) | change.body | _tags(tags)
    number = f" of {_pools_text(list(payload))}" if key and name is None and len(payload) > NAMED_POOLS else ""
    done = f"Successfully updated {kind} config{f' {name}' if name else number}."
    change.show(change.send(method, address, body), lambda _: done)
    if method == "PUT" and name is None:
        would = "would get" if session.dry_run else "have"
        print_warning(
            f"The file is the whole configuration of {_pools_text(list(payload))}: values that it leaves out {would} "
            "their defaults. To change a part: name the pool."
        )


def _require_cluster(session: ClientSession, name: str) -> None:
    """Refuse a file that does not say the type of a cluster that is not there: a wrong name would create it."""
    if name not in [row["name"] for row in session.http().get(url_path("api", "configs", "backend"))["backends"]]:
        raise ClientError(
            f"Cluster {name} does not exist. The file of a new cluster says its type: simulated or kubernetes.",
            status=404,
        )


def _pools_text(names: list[str]) -> str:
    """`a, b` or `1000 pools (a, b, c and 997 more)`."""
    listed = format_cell(first_of(names))
    return listed if len(names) <= NAMED_POOLS else f"{len(names):,} pools ({listed})"


def _build_request(kind: str, name: str | None, desired: dict[str, Any]) -> tuple[str, str | None, Any]:
    """Method, key of the body, and content for this type of object."""
    if kind == POOL and name is None:
        pools = desired.get("pools")
        if not isinstance(pools, dict) or not pools:
            raise ClientError('Without a NAME the file must hold {"pools": {NAME: {…}}}.')
        return "PUT", "configs", pools
    if kind == BACKEND:
        if name is None:
            raise ClientError("Name the backend: osmo config update BACKEND NAME -f FILE, with the keys of this one.")
        return "PUT", None, desired
    return "PATCH", "configs_dict", desired


def _tags(tags: list[str] | None) -> dict[str, Any]:
    return {"tags": tags} if tags else {}


@client_command(app, "delete", writes=True, confirms=True, short_t=False)
def delete(
    session: ClientSession,
    *,
    config: TypeArgument,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the object.", autocompletion=complete_config_names)
    ],
    description: DescriptionOption = None,
    tags: TagsOption = None,
    request_approval: RequestApprovalOption = False,
) -> None:
    """Delete a pool (a pool with history is archived instead).

    Example: osmo config delete POOL vision --dry-run
    """
    kind = config.upper()
    confirm(session, f"Delete {kind} {name}?")
    change = TypedChange(session, DeletePool, {}, description, request_approval)
    answer = change.send("DELETE", url_path("api", "configs", kind.lower(), name), _tags(tags))
    change.show(answer, lambda _: f'Successfully deleted {kind} config "{name}".')


@list_command(app, "history", RevisionQuery)
def history(
    session: ClientSession,
    query: dict[str, Any],
    *,
    config: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="POOL, WORKFLOW or BACKEND; all if not given.")
    ] = None,
    order: OrderOption = SortOrder.ASC,
) -> None:
    """List the changes of a configuration.

    Example: osmo config history POOL --name vision
    """
    if "at_timestamp" in query and query.keys() & {"created_after", "created_before"}:
        raise ClientError("Give either --at-timestamp or --created-after and --created-before.")
    kinds = {"config_types": [config.upper()]} if config else {}
    query |= {"omit_data": True, "order": order.value.upper(), **kinds}
    answer = session.http().get("api/configs/history", query)
    print_list(session, answer, REVISION_COLUMNS.values(), answer["configs"], "There are no changes to view.")
