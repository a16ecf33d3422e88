"""Commands of the client made from the declarations of changes (:mod:`pools.domain.changes.command`).

    @change_command(app, "update", ResizeSubpool)
    def update(session: ClientSession, change: TypedChange) -> None:
        '''Change the quota of a subpool.'''
        answer = change.send("PATCH", _subpool_url(change["parent"], change["subpool_name"]))

A command has an argument for each text of the address, an option for each value, and those that every change of its
kind has: `--description`, `--request-approval`, `--if-match`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer

from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.options import DescriptionOption, IfMatchOption, RequestApprovalOption
from osmo_admin.cli.base.output import confirm, print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.times import parse_time
from osmo_admin.cli.base.yaml_files import parse_amounts, parse_flavors, parse_number
from osmo_admin.cli.declared_options import declared_parameter, keyword_parameter
from osmo_admin.cli.text.effect_text import (
    as_it_is,
    print_effect,
    requested_text,
    show_effect,
    without_approval_needs,
)
from pools.domain.changes.command import ChangeCommand, body_fields
from pools.domain.structured_input.declared_values import JSON, fields_of, query_fields

_READERS: Mapping[str, Callable[[str], Any]] = {
    "amounts": parse_amounts, "flavors": parse_flavors, "quota": parse_number,
    "time": partial(parse_time, is_ahead=True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TypedChange:
    """A change as it was typed: its values by field, and what accompanies it."""

    session: ClientSession
    kind: type[ChangeCommand]
    values: Mapping[str, Any]
    description: str | None = None
    request_approval: bool = False
    if_match: str | None = None

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def body(self) -> dict[str, Any]:
        """The body of the request: the values that were given, and the reason. A default that is not empty is sent too:
        the server may have another one, or none. What is not typed of an argument is taken away."""
        found: dict[str, Any] = {}
        usual = {each.name: each.default for each in dataclasses.fields(self.kind)}  # type: ignore[arg-type]
        for name, about in body_fields(self.kind).items():
            is_empty = self.values.get(name) in (None, "") or self[name] is usual[name] is False
            if name not in self.values or (is_empty and not (about.is_required or about.positional)):
                continue
            read = _READERS.get(about.kind.looks)
            found[name] = read(self[name]) if read and self[name] else self[name]
        return found | ({"description": self.description} if self.description else {})

    @property
    def query(self) -> dict[str, Any]:
        """The query of the request: what was chosen of the fields that stand there."""
        return {name: self[name] for name in query_fields(self.kind) if self[name]}

    def send(self, method: str, address: str, configuration: Mapping[str, Any] = {}) -> Any:
        """Send the change, or with `--dry-run` ask for its effect. `configuration` has the keys of a value that was not
        typed as it is."""
        query = self.query | self.session.dry_run_query | ({"request_approval": True} if self.request_approval else {})
        return self.session.http().send_change(
            method, address, query=query, body={**self.body, **configuration} or None, if_match=self.if_match
        )

    def confirm(self, question: str, method: str, address: str, summarize: Callable[[Any], Any] = as_it_is) -> None:
        """Show the effect and ask, if a terminal is attached. Raises :class:`ClientError` if the user declines."""

        def show() -> None:
            effect = self.session.http().send_change(
                method, address, query=self.query | {"dry_run": True}, body=self.body, if_match=self.if_match
            )
            print_effect(summarize(without_approval_needs(effect) if self.request_approval else effect))

        confirm(self.session, question, preview=show)

    def show(self, answer: Any, text: Callable[[Any], Any], summarize: Callable[[Any], Any] = as_it_is) -> None:
        """Print the answer: the effect of a dry run, a request for an approval, or the `text` of the change."""
        if self.session.dry_run:
            show_effect(self.session, answer, summarize)
        else:
            print_answer(
                self.session, answer, lambda: (self.request_approval and requested_text(answer)) or text(answer)
            )


def change_command(
    family: typer.Typer,
    name: str,
    kind: type[ChangeCommand],
    *,
    confirms: bool = False,
    options: Mapping[str, Any] = {},
    usual: Mapping[str, Any] = {},
) -> Callable[[Callable[[ClientSession, TypedChange], None]], Any]:
    """Register a command that makes a change of this kind. `options` are the types of its options by name: instead
    of a value that is a JSON object, and of a value that is typed in another way. `usual`: defaults that the client
    alone has."""
    notes = {"description", "request_approval", "if_match"} - fields_of(kind).keys()

    def register(function: Callable[[ClientSession, TypedChange], None]) -> Any:
        def run(session: ClientSession, **given: Any) -> None:
            note = {key: given.pop(key) for key in notes & given.keys()}
            function(session, TypedChange(session, kind, given, **note))

        run.__doc__, run.__name__, run.__module__ = function.__doc__, function.__name__, function.__module__
        run.__signature__ = inspect.Signature(_parameters(kind, options, usual))  # type: ignore[attr-defined]
        client_command(family, name, writes=kind.has_preview, confirms=confirms)(run)
        return function

    return register


def _parameters(
    kind: type[ChangeCommand], options: Mapping[str, Any], usual: Mapping[str, Any]
) -> list[inspect.Parameter]:
    """The parameters of the command."""
    defaults = {each.name: each.default for each in dataclasses.fields(kind)} | dict(usual)  # type: ignore[arg-type]
    found = {
        name: declared_parameter(name, about, defaults[name])
        for name, about in fields_of(kind).items()
        if about.kind.looks != JSON.looks
    }
    found |= {name: keyword_parameter(name, hint, None) for name, hint in options.items()}
    found.setdefault("description", keyword_parameter("description", DescriptionOption, None))
    if kind.may_need_approval:
        found["request_approval"] = keyword_parameter("request_approval", RequestApprovalOption, False)
    if kind.needs_version:
        found["if_match"] = keyword_parameter("if_match", IfMatchOption, None)
    return [keyword_parameter("session", ClientSession), *found.values()]
