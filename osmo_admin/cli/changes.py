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
from typing import Annotated, Any, Literal

import typer

from osmo_admin.cli.base.command_decorator import client_command
from osmo_admin.cli.base.completion import (
    complete_backends,
    complete_cohorts,
    complete_namespaces,
    complete_nodes,
    complete_parent_pools,
    complete_pools,
    complete_roles,
    complete_subpools,
    complete_users,
    complete_workflows,
)
from osmo_admin.cli.base.options import DescriptionOption, IfMatchOption, RequestApprovalOption
from osmo_admin.cli.base.output import confirm, print_answer
from osmo_admin.cli.base.session import ClientSession
from osmo_admin.cli.base.times import format_local_time, parse_time
from osmo_admin.cli.base.yaml_files import parse_amounts, parse_flavors, parse_number
from osmo_admin.cli.text.effect_text import as_it_is, print_effect, show_effect
from pools.domain.changes.command import JSON, ChangeCommand, ChangeField, body_fields, fields_of, query_fields
from pools.domain.errors import Fault
from pools.domain.values.query_values import MAX_INTEGER

_COMPLETIONS: Mapping[str, Callable[..., Any]] = {
    "BACKEND": complete_backends,
    "CLUSTER": complete_backends,
    "COHORT": complete_cohorts,
    "NAMESPACE": complete_namespaces,
    "NODE": complete_nodes,
    "PARENT": complete_parent_pools,
    "POOL": complete_pools,
    "ROLE": complete_roles,
    "SUBPOOL": complete_subpools,
    "USER": complete_users,
    "WORKFLOW": complete_workflows,
}
"""By the word of the argument."""
_COMPLETIONS_BY_NAME: Mapping[str, Callable[..., Any]] = {
    "actor": complete_users, "pool": complete_pools, "workflow": complete_workflows, "workflow_id": complete_workflows,
}  # fmt: skip
"""By the name of the field, where the argument has no word of its own."""
_TYPES: Mapping[str, Any] = {"boolean": bool, "texts": list[str], "number": int}
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
    found |= {name: _keyword(name, hint, None) for name, hint in options.items()}
    found.setdefault("description", _keyword("description", DescriptionOption, None))
    if kind.may_need_approval:
        found["request_approval"] = _keyword("request_approval", RequestApprovalOption, False)
    if kind.needs_version:
        found["if_match"] = _keyword("if_match", IfMatchOption, None)
    return [_keyword("session", ClientSession), *found.values()]


def _keyword(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def declared_parameter(
    name: str,
    about: ChangeField,
    usual: Any,
    time_words: str = "A date, a time, or 12h, 7d from now.",
) -> inspect.Parameter:
    """The argument or option of one field; `usual` is its default, `time_words` say how a time is typed."""
    schema, looks = about.kind.schema, about.kind.looks
    hint: Any = Literal[*about.kind.options] if looks == "choice" else _TYPES.get(looks, str)
    typed_default = usual if isinstance(usual, str | int | list) and usual != "" else None
    default = inspect.Parameter.empty if about.is_required and typed_default is None else typed_default
    words: dict[str, Any] = {
        "help": f"{about.sentence} {time_words}" if looks == "time" else about.sentence,
        "metavar": about.metavar or ("TIME" if looks == "time" else None),
        "autocompletion": _COMPLETIONS.get((about.metavar or "").removesuffix("...")) or _COMPLETIONS_BY_NAME.get(name),
        "case_sensitive": False,
        "min": schema.get("minimum"),
        "max": None if schema.get("maximum") == MAX_INTEGER else schema.get("maximum"),
    }
    hint = hint if about.is_required or looks == "boolean" else hint | None
    if about.positional:
        return _keyword(name, Annotated[hint, typer.Argument(**words)], default)
    names = f"{about.option or '--' + name.replace('_', '-')} {about.short or ''}".split()
    return _keyword(name, Annotated[hint, typer.Option(*names, **words)], default)


def without_approval_needs(effect: Any) -> Any:
    """The effect of a change for which an approval is requested: the need of it is not a refusal."""
    if not isinstance(effect, dict):
        return effect
    violations = [each for each in effect.get("violations") or [] if each.get("code") != Fault.APPROVAL_NEEDED]
    return effect | {"violations": violations}


def requested_text(answer: Any) -> str | None:
    """The text for a change that was requested instead of made; None for any other answer."""
    if not isinstance(answer, dict) or "requested_by" not in answer:
        return None
    return (
        f"Nothing is changed yet. Request {answer['id']} waits for the approval of a second person until "
        f"{format_local_time(answer.get('expires_at'))}: osmo approval show {answer['id']}."
    )
