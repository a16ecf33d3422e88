"""Commands of the client made from the declared queries of lists (:mod:`pools.domain.questions`).

    @list_command(app, "list", TaskQuery, watches=True)
    def list_(session: ClientSession, query: dict[str, Any], *, verbose: VerboseOption = False) -> None:
        '''List tasks.'''
        answer = session.http().get("api/task", query)

A command has an option for each value of the query, and the further ones of its function. One of the same name replaces
the declared one: the function gets what was typed, and the query is without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

import typer

from osmo_admin.cli.base.client_errors import ClientError, meant_text
from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.times import parse_time
from osmo_admin.cli.declared_options import declared_parameter
from pools.domain.questions import Page
from pools.domain.structured_input.declared_values import DeclaredValue, query_fields


def list_command(
    family: typer.Typer,
    name: str,
    kind: type[Any],
    *,
    usual: Mapping[str, Any] = {},
    in_utc: bool = False,
    **registering: bool,
) -> Callable[[Callable[..., None]], Any]:
    """Register a command that shows a list. `usual`: defaults that the client alone has; `in_utc`: times are typed in
    UTC; `registering` is of `client_command`."""
    parameters = {each: about for each, about in query_fields(kind).items() if about.option != ""}
    # The last options:
    parameters |= {each: parameters.pop(each) for each in query_fields(Page) if each in parameters}
    defaults = {each.name: each.default for each in fields(kind)} | dict(usual)
    time_words = f"A date, a time{' in UTC' if in_utc else ''}, or 12h, 7d before now."

    def register(function: Callable[..., None]) -> Any:
        session, _, *own = inspect.signature(function, eval_str=True).parameters.values()
        declared = {each: about for each, about in parameters.items() if each not in {other.name for other in own}}

        def run(session: ClientSession, **given: Any) -> None:
            query = {each: _value_of(about, given.pop(each), in_utc) for each, about in declared.items()}
            sent = {each: value for each, value in query.items() if value not in (None, "", []) and value is not False}
            try:
                function(session, sent, **given)
            except ClientError as error:
                error.hint = error.hint or _meant_choices(error, declared, query)
                raise

        run.__doc__, run.__name__, run.__module__ = function.__doc__, function.__name__, function.__module__
        typed = [declared_parameter(each, about, defaults[each], time_words) for each, about in declared.items()]
        run.__signature__ = inspect.Signature([session, *own, *typed])  # type: ignore[attr-defined]
        client_command(family, name, **registering)(run)
        return function

    return register


def _value_of(about: DeclaredValue, typed: Any, in_utc: bool) -> Any:
    """The value of the query. For a word that is not one of a choice, the server lists the choices."""
    if about.kind.looks == "time" and typed:
        return parse_time(typed, in_utc=in_utc)
    is_choice = about.kind.is_list and about.kind.options
    return [about.kind.parse(each) or each for each in typed or []] if is_choice else typed


def _meant_choices(error: ClientError, declared: Mapping[str, DeclaredValue], query: Mapping[str, Any]) -> str | None:
    """What was meant by a word that is not one of a choice, of which the server has refused it."""
    found: dict[str, str] = {}
    for field in {str(detail.get("path")) for detail in error.details} & declared.keys():
        choices = [str(each) for each in declared[field].kind.options or ()]
        for word in query[field] if isinstance(query[field], list) else ():
            if str(word) not in choices and (near := get_close_matches(str(word).upper(), choices, n=1)):
                found[str(word)] = near[0]
    return meant_text(found) if found else None


def query_of_work(query: dict[str, Any]) -> dict[str, Any]:
    """The query of a list of work: of all pools if none is named. Raises :class:`ClientError` for two conditions that
    exclude each other."""
    if "users" in query and "all_users" in query:
        raise ClientError("Give either --user or --all-users.")
    return query if "pools" in query else query | {"all_pools": True}
