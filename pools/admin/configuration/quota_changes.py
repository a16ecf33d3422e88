"""The quotas of many subpools in the browser, with one preview: of one pool in a form of numbers, or of many pools from
a CSV file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from django.forms import FileField, FileInput
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import reason_field
from pools.admin.configuration.pool_tree_preview import (
    BarsOfPools,
    pool_breadcrumbs,
    pool_url,
    reading_bars,
)
from pools.admin.confirm_flow import Change, ChangeForm, ConfirmFlow, FieldGroup, typed_input
from pools.admin.git_ownership import owned_reason
from pools.domain.change_effects import NodeEffect, consequence_messages, node_effects
from pools.domain.changes.subpools import ResizeSubpools
from pools.domain.configuration.quota_file import (
    MAX_FILE_LENGTH,
    QuotaFile,
    format_quota_file,
    message_of_file,
    parse_quota_file,
)
from pools.domain.errors import BadInput, DomainError, Fault, Forbidden, Violation
from pools.domain.names import split_name
from pools.domain.people.roles import Actor, Permission
from pools.domain.values.counting import counted
from pools.models import Pool
from pools.permissions import get_visible_root, require_permission
from pools.selectors.quotas import pool_tree
from pools.selectors.quotas.subpool_quotas import visible_quotas
from pools.services.changes.dry_run import EffectAnswer
from pools.services.configuration.subpool_quotas import QuotasResult, effect_on_quotas, resize_subpools

QUOTA_FIELD = "quota-"
MAX_ADDRESS_LENGTH = 6000
"""The most characters of changed lines: the preview has them in its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasPreview:
    """The preview of new quotas, as typed; `pool` is the only pool, None for several."""

    form_template: ClassVar[str] = "osmo/change_form.html"
    effect_template: ClassVar[str] = "osmo/change_effect.html"

    actor: Actor
    pool: Pool | None
    command: ResizeSubpools
    bars: BarsOfPools = field(default_factory=dict)

    def form_context(self) -> dict[str, Any]:
        """The tree as it is now."""
        tree = pool_tree.pool_trees_of([self.pool])[0] if self.pool else None
        return {"pool": self.pool, "tree": tree, "has_many_numbers": self.pool is not None}

    def dry_run(self, operation: Callable[[], object]) -> EffectAnswer:
        """The effect on the trees of all pools."""
        pools = {parent for name in self.command.quotas if (parent := split_name(name).parent)}
        return effect_on_quotas(self.command, reading_bars(operation, pools, self.bars), self.actor)

    def effect_context(self, effect: EffectAnswer, result: QuotasResult) -> dict[str, Any]:
        """Each node of each pool before and after."""
        after = effect["after"] or {}
        roots = Pool.objects.roots().filter(name__in=effect["before"]).select_related("backend")
        parts = {root.name: root.part_flavors for root in roots}
        trees = [
            node_effects(tree, after.get(name), self.bars.get(name), parts.get(name, ()))
            for name, tree in effect["before"].items()
        ]
        return {
            "pool": self.pool,
            "nodes": [node for tree in trees for node in self._shown(tree)],
            "effect_messages": tuple(message for tree in trees for message in consequence_messages(tree)),
            "warnings": result.warnings,
            "is_unchanged": not result.changed,
            "reclaimed": effect["may_be_reclaimed"],
            "reclaimed_elsewhere": effect["may_be_reclaimed_elsewhere"],
        }

    def _shown(self, tree: tuple[NodeEffect, ...]) -> tuple[NodeEffect, ...]:
        """All nodes of a single pool; of several pools those that change, below their pool."""
        return tree if self.pool else (tree[0], *(node for node in tree[1:] if node.is_changed))

    def current_state(self) -> dict[str, Any] | None:
        """The version of each subpool of the change."""
        rows = Pool.objects.filter(name__in=self.command.quotas).order_by("name")
        return dict(rows.values_list("name", "version"))

    def fingerprint(self, state: dict[str, Any] | None) -> str:
        """The versions that the change counts on. `state` may also be the trees of a preview."""
        versions = {
            part["name"]: part["version"]
            for tree in (state or {}).values()
            if isinstance(tree, dict)
            for part in tree["subpools"]
            if part["name"] in self.command.quotas
        }
        return " ".join(f"{name}:{version}" for name, version in sorted((versions or state or {}).items()))


def resize_pool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that give several subpools of a pool new quotas."""
    actor, root = actor_of(request), get_visible_root(actor_of(request), pool)
    require_permission(actor, Permission.POOL_PARTITION, pool)
    present = visible_quotas(actor, [root])
    typed = typed_input(request)
    quotas = {name: found for name, quota in present.items() if (found := _typed_quota(name, quota, typed)) is not None}
    return _respond(
        admin,
        request,
        root,
        quotas,
        title=f"Resize subpools of {root.name}",
        unavailable_reason=owned_reason(ResizeSubpools, root.name)
        or ("" if present else f"Pool {root.name} has no ACTIVE subpools."),
        form_class=_pool_form(present),
        initial={key: gpus for name, quota in present.items() for key, gpus in _inputs_of(name, quota).items()},
        success_url=pool_url(root.name),
    )


def import_quotas_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that read the quotas of subpools from a CSV file."""
    actor = actor_of(request)
    if not (actor.is_admin or actor.pools_with(Permission.POOL_PARTITION)):
        raise Forbidden(f"This needs the role osmo-admin or osmo-POOL-admin; {actor.username} has neither.")
    present = visible_quotas(actor)
    form_class = type("QuotaFileForm", (QuotaFileForm,), {"present": present})
    form = form_class(typed_input(request), request.FILES if request.method == "POST" else None)
    file = form.cleaned_data.get("parsed") if form.is_valid() else None
    return _respond(
        admin,
        request,
        None,
        file.quotas if file else {},
        title="Import quotas of subpools",
        form_class=form_class,
        success_url=reverse("admin:pools_pool_changelist"),
    )


def _respond(
    admin: PolicyAdmin, request: HttpRequest, pool: Pool | None, quotas: Mapping[str, object], **texts: Any
) -> HttpResponse:
    """The pages of these quotas; `texts` are fields of its :class:`Change`."""
    command = ResizeSubpools(quotas=quotas)
    change = Change(
        button="Save the quotas",
        breadcrumbs=pool_breadcrumbs(pool),
        preview=QuotasPreview(actor=actor_of(request), pool=pool, command=command),
        command=lambda _: command,
        service=resize_subpools,
        success_message=_success_message,
        **texts,
    )
    return ConfirmFlow(admin, request, change).respond()


class QuotaFileForm(ChangeForm):
    """A CSV file. After it was read, the text has only the lines that change a quota."""

    present: ClassVar[Mapping[str, int | Mapping[str, int]]] = {}
    upload = FileField(label="CSV file", required=False, widget=FileInput(), help_text="Replaces the text below.")
    quotas = forms.code_field(
        "Lines",
        rows=12,
        max_length=MAX_FILE_LENGTH,
        help_text="A first line pool,subpool,quota, then a line for each subpool. The CSV of the list of pools can be "
        "edited and given back: its other columns are not read. Only lines that change a quota count.",
    )
    description = reason_field()

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        text = self.read_upload("upload", longest=MAX_FILE_LENGTH) or forms.unix_lines(data.get("quotas", ""))
        if self.errors:
            return data
        try:
            data["parsed"] = self._changes(parse_quota_file(text))
        except BadInput as refusal:
            self.cleaned_data = data
            self.add_errors(refusal)
        return data

    def add_errors(self, refusal: DomainError) -> None:
        """Show them in the words of the file."""
        file = getattr(self, "cleaned_data", {}).get("parsed")
        names = file.quotas if file else ()
        faults = [
            replace(fault, path="quotas", message=message_of_file(fault.path, fault.code, fault.message, names))
            if fault.path.startswith("quotas.")
            else fault
            for fault in refusal.details
        ]
        super().add_errors(type(refusal)(refusal.message, faults))

    def _changes(self, file: QuotaFile) -> QuotaFile:
        """The lines that change a quota, which the form shows from now on. Raises BadInput without any."""
        changed = {name: text for name, text in file.quotas.items() if _as_typed(self.present.get(name, "")) != text}
        if not changed:
            have = counted(len(file.quotas), "subpool has its quota", "subpools have these quotas")
            message = f"The file changes no quota: {have} already."
            raise BadInput(message, [Violation("quotas", Fault.BAD_VALUE, message)])
        lines = format_quota_file({split_name(name): text for name, text in changed.items()})
        if len(lines) > MAX_ADDRESS_LENGTH:
            message = (
                f"The file changes {len(changed)} quotas, more than a page previews at once. Give it in parts, or use "
                "osmo pool subpool import."
            )
            raise BadInput(message, [Violation("quotas", Fault.BAD_VALUE, message)])
        self.replace_input("quotas", lines)
        return QuotaFile(changed, file.lines, file.left_out)


def _field_of(name: str, flavor: str = "") -> str:
    return f"{QUOTA_FIELD}{split_name(name).subpool}{f'.{flavor}' if flavor else ''}"


def _inputs_of(name: str, quota: int | Mapping[str, int]) -> dict[str, int]:
    """The inputs of a subpool with its present numbers."""
    if isinstance(quota, int):
        return {_field_of(name): quota}
    return {_field_of(name, flavor): gpus for flavor, gpus in quota.items()}


def _typed_quota(name: str, quota: int | Mapping[str, int], typed: Mapping[str, str]) -> object:
    """What was typed for a subpool; None for nothing."""
    if isinstance(quota, int):
        return typed.get(_field_of(name))
    return {flavor: typed[key] for flavor in quota if typed.get(key := _field_of(name, flavor))} or None


def _as_typed(quota: object) -> object:
    if isinstance(quota, Mapping):
        return {flavor: str(gpus) for flavor, gpus in quota.items()}
    return str(quota)


def _pool_form(present: Mapping[str, int | Mapping[str, int]]) -> type[ChangeForm]:
    """A form with a number for each subpool, or for each flavor of it."""
    fields: dict[str, Any] = {"field_by_path": {}}
    groups = []
    for name, quota in present.items():
        label, flavors = split_name(name).subpool or "", quota if isinstance(quota, Mapping) else {"": quota}
        for flavor in flavors:
            fields[_field_of(name, flavor)] = forms.text_field(flavor or label, inputmode="decimal")
            path = f"quotas.{name}.{flavor}" if flavor else f"quotas.{name}"
            fields["field_by_path"][path] = _field_of(name, flavor)
        if isinstance(quota, Mapping):
            groups.append(FieldGroup(label, tuple(_field_of(name, flavor) for flavor in flavors)))
    fields["description"] = reason_field()
    if groups:
        fields["groups"] = (*groups, FieldGroup("", ("description",)))
    return type("PoolQuotasForm", (ChangeForm,), fields)


def _success_message(result: QuotasResult) -> str:
    if len(result.changed) > 5:
        return f"{counted(len(result.changed), 'subpool has', 'subpools have')} new quotas now."
    if any(each.subpool.quotas for each in result.changed):
        return f"New quotas: {', '.join(f'{each.row.name} {each.quota_text}' for each in result.changed)}."
    changed = [f"{each.row.name} {each.subpool.quota}" for each in result.changed]
    return f"New quotas in GPUs: {', '.join(changed)}." if changed else "No quota was changed."
