"""The arguments and options of the client for declared values: of a change, or of the query of a list
(:mod:`pools.domain.structured_input.declared_values`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import typer

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
from pools.domain.structured_input.declared_values import DeclaredValue
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


def keyword_parameter(name: str, hint: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A parameter of the function of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def declared_parameter(
    name: str,
    about: DeclaredValue,
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
        return keyword_parameter(name, Annotated[hint, typer.Argument(**words)], default)
    names = f"{about.option or '--' + name.replace('_', '-')} {about.short or ''}".split()
    return keyword_parameter(name, Annotated[hint, typer.Option(*names, **words)], default)
