"""Creating and configuring top-level pools in the browser, for osmo-admin."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django.forms import Field
from django.http import HttpRequest, HttpResponse

from pools.admin import forms
from pools.admin.base import PolicyAdmin, actor_of
from pools.admin.command_forms import input_field, reason_field, section_groups
from pools.admin.configuration.pool_tree_preview import PoolTreePreview, pool_breadcrumbs, pool_url
from pools.admin.confirm_flow import Change, ChangeForm, ConfirmFlow, FieldGroup, typed_input
from pools.admin.git_ownership import owned_reason
from pools.admin.live_notes import free_in_cluster, free_in_clusters
from pools.domain.change_effects import NodeEffect, consequence_messages
from pools.domain.changes.pools import CreatePool, PatchPool, PutPool
from pools.domain.configuration.config_merge import ACTION, DELETE, REPLACE
from pools.domain.configuration.flavors import parts_among
from pools.domain.configuration.pool_config import editable_body
from pools.domain.configuration.pool_fields import ABOUT, FIELDS_OF_FORM, POOL_FIELDS, QUOTA_SECTION, SECTIONS
from pools.domain.configuration.pool_flavors import SWITCHES
from pools.domain.people.roles import Permission
from pools.domain.quota.stored_quotas import FLAVOR_LIMITS
from pools.domain.values.amounts import NO_LIMIT, gpu_words
from pools.domain.values.scalars import typed_number
from pools.models import Backend, Pool, Reservation
from pools.permissions import get_visible_root, require_permission, require_platform
from pools.representations.pool import pool_settings_of
from pools.services.configuration.pool_configuration import PoolResult
from pools.services.configuration.pools import create_pool, patch_pool, put_pool


class PoolConfigForm(ChangeForm):
    """The part of a pool's configuration that is edited here
    (:data:`pools.domain.configuration.pool_fields.FIELDS_OF_FORM`); the rest (platforms, timeouts, …) stays as it
    is."""

    field_by_path = {each.key: name for name, each in FIELDS_OF_FORM.items()}
    groups = section_groups(FIELDS_OF_FORM, SECTIONS, {ABOUT: ("description",)})
    flavors: ClassVar[Sequence[str]] = ()
    """Those that the cluster names: the form has the numbers of each."""
    parts: ClassVar[Collection[str]] = ()
    """Those of them that count parts of shared GPUs."""
    is_divided = False
    """Whether the pool has flavors: its own numbers are their sums, and the form does not ask for them."""
    open_flavors: ClassVar[int] = 0
    """Up to this number of flavors, the numbers of each are not folded."""

    def own_fields(self) -> dict[str, Field]:
        """The fields of the configuration, and the reason."""
        names = [
            name for name in FIELDS_OF_FORM
            if name not in ("about", "maintenance") and not (self.is_divided and name in FLAVOR_KEYS)
        ]  # fmt: skip
        found = {name: FIELDS_OF_FORM[name] for name in (*names, "about", "maintenance")}
        fields = {name: input_field(about, about.looks) for name, about in found.items()}
        for flavor in self.flavors:
            for key in FLAVOR_KEYS:
                about, unit = FIELDS_OF_FORM[key], gpu_words(flavor, self.parts, is_named=False)[1]
                label = about.label.replace(" in GPUs", f" of {flavor} in {unit}")
                empty = "none" if key == "guarantee" else about.empty
                help_text = about.help.replace("GPUs", unit)
                number = input_field(replace(about, label=label, unit=unit, empty=empty, help=help_text), "number")
                fields[flavor_input(flavor, key)] = number
        if self.flavors:
            fields |= {
                key: forms.choice_field(about.label, help_text=about.help, choices=_SWITCH_CHOICES[key], required=False)
                for about in POOL_FIELDS
                if (key := about.key) in SWITCHES
            }
        return {**fields, "description": reason_field()}


FLAVOR_KEYS = ("guarantee", *FLAVOR_LIMITS)
_SWITCH_CHOICES: Mapping[str, Sequence[tuple[str, str]]] = {
    "when_can_borrow": (("borrow", "borrow"), ("next", "try the next flavor first")),
    "when_can_preempt": (("next", "try the next flavor first"), ("preempt", "preempt")),
}


def flavor_input(flavor: str, key: str) -> str:
    """The name of the input with a number of a flavor."""
    return f"{key}-{flavor}"


def pool_form(
    form_class: type[PoolConfigForm],
    flavors: Sequence[str],
    backends: Iterable[Backend],
    *,
    is_divided: bool = False,
) -> type[PoolConfigForm]:
    """The form with the numbers of each of these flavors; without flavors the form as it is."""
    if not flavors:
        return form_class
    is_open = len(flavors) <= form_class.open_flavors
    each_flavor = [
        FieldGroup(f"Flavor {flavor}", names, None if is_open else dict.fromkeys(names, ""))
        for flavor in flavors
        if (names := tuple(flavor_input(flavor, key) for key in FLAVOR_KEYS))
    ]
    usual = {key: words[0] for key, words in SWITCHES.items()}
    choices = FieldGroup("The choice among flavors", tuple(SWITCHES), usual)
    at = next(place for place, group in enumerate(form_class.groups) if group.title == QUOTA_SECTION) + 1
    paths = {
        f"resources.flavors.{flavor}.{key}": flavor_input(flavor, key) for flavor in flavors for key in FLAVOR_KEYS
    }
    paths |= {f"resources.flavors.{flavor}": flavor_input(flavor, "guarantee") for flavor in flavors}
    more = {
        "flavors": tuple(flavors),
        "parts": frozenset().union(*(parts_among(each.flavors) for each in backends)),
        "is_divided": is_divided,
        "groups": (*form_class.groups[:at], *each_flavor, choices, *form_class.groups[at:]),
        "field_by_path": {**form_class.field_by_path, **paths},
    }
    return type(form_class.__name__, (form_class,), more)


def _flavors_from(form: ChangeForm) -> dict[str, dict[str, Any]]:
    """The numbers of each flavor that has some, in the order of the form."""
    found: dict[str, dict[str, Any]] = {}
    for flavor in getattr(form, "flavors", ()):
        texts = {key: form.cleaned_data[flavor_input(flavor, key)].strip() for key in FLAVOR_KEYS}
        if any(texts.values()):
            found[flavor] = {key: typed_number(text) for key, text in texts.items() if text}
    return found


class CreatePoolForm(PoolConfigForm):
    """A new pool. Its own quota is the one of nodes without a flavor, so the flavors must be seen."""

    open_flavors = 6
    groups = (FieldGroup("Pool", ("name", "backend")), *PoolConfigForm.groups)
    name = forms.text_field("Name", help_text="Lower-case letters, digits and single hyphens, a letter first.")
    backend = forms.choice_field("Cluster", help_text="The cluster (backend) that runs the pool's work.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = list(Backend.objects.order_by("name"))
        backend = self.fields["backend"]
        backend.choices = [(row.name, row.name) for row in rows]  # type: ignore[attr-defined]
        self._other_flavors = [name for name in _named_flavors(rows) if name not in self.flavors]
        of_each = {row.name: _named_flavors([row]) for row in rows}
        if any(flavors != self.flavors for flavors in of_each.values()):
            self.decides = "backend"
            backend.widget.attrs |= {"data-decides": json.dumps(of_each), "data-decided": json.dumps(self.flavors)}
            self["backend"].help_text = f"{backend.help_text} The form has the numbers of its flavors."

    def clean(self) -> dict[str, Any]:
        """Numbers of flavors of the cluster that was chosen before are not dropped in silence."""
        keys = [(flavor, flavor_input(flavor, key)) for flavor in self._other_flavors for key in FLAVOR_KEYS]
        lost = list(dict.fromkeys(flavor for flavor, key in keys if self.data.get(key, "").strip()))
        if lost:
            kinds = f"flavor {lost[0]}" if len(lost) == 1 else f"flavors {', '.join(lost)}"
            own = f"Its own are below: {', '.join(self.flavors)}." if self.flavors else "It has none."
            self.add_error("backend", f"This cluster does not have the {kinds}, of which numbers were given. {own}")
        return super().clean() or {}


def pool_config_from(form: ChangeForm, *, as_patch: bool = False, is_new: bool = False) -> dict[str, Any]:
    """The input as the configuration's JSON: an empty amount is what its declaration says. A number that was not sent,
    and an empty weight, are left out. With numbers by flavor those of the pool are their sums; of a new pool, those
    that were given beside them are kept, which the service compares."""
    body: dict[str, Any] = {"resources": {"gpu": {}}}
    flavors = _flavors_from(form)
    if getattr(form, "flavors", ()):
        action = REPLACE if flavors else DELETE
        body["resources"]["flavors"] = {**({ACTION: action} if as_patch else {}), **flavors}
        body |= {key: form.cleaned_data[key] or words[0] for key, words in SWITCHES.items()}
    for name, about in FIELDS_OF_FORM.items():
        if name not in form.fields:
            continue
        if flavors and name in FLAVOR_KEYS and not (is_new and form.cleaned_data[name].strip() not in ("", "0")):
            if not about.key.startswith("resources.gpu."):
                body[about.key] = None
            continue
        value = form.cleaned_data[name]
        if about.looks == "number":
            value = typed_number(value.strip()) if value.strip() else about.empty_value
        elif name == "cohort":
            value = value.strip() or None
        if about.key.startswith("resources.gpu."):
            if value is not None and name in form.data:
                body["resources"]["gpu"][about.column] = value
        elif about.is_column or about.looks != "number" or name in form.data:
            body[about.key] = value
    return body | {"backend": form.cleaned_data["backend"]} if "backend" in form.cleaned_data else body


def create_pool_page(admin: PolicyAdmin, request: HttpRequest) -> HttpResponse:
    """The pages that create a pool."""
    actor = actor_of(request)
    require_platform(actor, Permission.POOL_CONFIGURE)
    name = typed_input(request).get("name", "").strip()

    def command(form: ChangeForm) -> CreatePool:
        return CreatePool(name=name, body=pool_config_from(form, is_new=True))

    def creation_messages(
        nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: PoolResult
    ) -> tuple[str, ...]:
        roles = f"osmo-{name}-admin and osmo-{name}-user"
        return (f"{name} and its roles {roles} are created. Assign the roles to users afterwards.",)

    chosen = _chosen_cluster(request)
    change = Change(
        title="Create a pool",
        button=f"Create {name}",
        breadcrumbs=pool_breadcrumbs(None),
        form_class=pool_form(CreatePoolForm, _named_flavors(chosen), chosen),
        initial={"guarantee": "0", "weight": "1", **{key: words[0] for key, words in SWITCHES.items()}},
        preview=PoolTreePreview(
            actor=actor,
            pool=None,
            root_name=name,
            changes_configuration=True,
            messages=creation_messages,
            live_note=lambda _: free_in_clusters(),
        ),
        command=command,
        service=create_pool,
        success_message=f"Pool {name} was created. Now divide it into subpools, and assign its roles to users.",
        success_url=page_of_result,
    )
    return ConfirmFlow(admin, request, change).respond()


def _chosen_cluster(request: HttpRequest) -> list[Backend]:
    """The cluster of the form: the one that was chosen, else the first. Empty without clusters."""
    rows = list(Backend.objects.order_by("name"))
    chosen = typed_input(request).get("backend", "")
    return [row for row in rows if row.name == chosen] or rows[:1]


def _named_flavors(backends: Iterable[Backend]) -> tuple[str, ...]:
    """The flavors that these clusters name."""
    return tuple(dict.fromkeys(each["name"] for row in backends for each in row.flavors))


def _flavors_of(root: Pool) -> tuple[str, ...]:
    """The flavors of a pool in its order, then the others of its cluster."""
    backend = [root.backend] if root.backend else []
    return tuple(dict.fromkeys((*root.gpu_flavors, *_named_flavors(backend))))


def page_of_result(result: PoolResult) -> str:
    """The page of a pool after its change."""
    return pool_url(result.row.name)


def configure_pool_page(admin: PolicyAdmin, request: HttpRequest, pool: str) -> HttpResponse:
    """The pages that configure a pool; for an archived pool they restore it."""
    actor, root = actor_of(request), configurable_root(request, pool)

    def command(form: ChangeForm) -> PutPool | PatchPool:
        if root.archived:
            return PutPool(name=root.name, body=editable_body(pool_settings_of(root)) | pool_config_from(form))
        return PatchPool(name=root.name, patch=pool_config_from(form, as_patch=True))

    def messages(nodes: tuple[NodeEffect, ...], remaining: list[Reservation], result: PoolResult) -> tuple[str, ...]:
        found = list(consequence_messages(nodes))
        if result.reactivated:
            found.append(f"{root.name} accepts work again.")
        if result.row.enable_maintenance and not root.enable_maintenance:
            found.append("Maintenance begins: only osmo-admin may submit, running work continues.")
        if root.enable_maintenance and not result.row.enable_maintenance:
            found.append("Maintenance ends: everybody with a role may submit again.")
        return tuple(found)

    change = Change(
        title=f"Bring {root.name} back" if root.archived else f"Configure {root.name}",
        button=f"Bring {root.name} back" if root.archived else "Save the configuration",
        unavailable_reason=owned_reason(PatchPool, root.name),
        breadcrumbs=pool_breadcrumbs(root),
        form_class=pool_form(
            PoolConfigForm, _flavors_of(root), [root.backend] if root.backend else [], is_divided=bool(root.flavors)
        ),
        initial=pool_form_values(root),
        version=root.version,
        preview=PoolTreePreview(
            actor=actor,
            pool=root,
            root_name=root.name,
            changes_configuration=True,
            messages=messages,
            live_note=lambda _: free_in_cluster(root),
        ),
        command=command,
        service=put_pool if root.archived else patch_pool,
        success_message=f"The configuration of {root.name} was saved.",
        success_url=pool_url(root.name),
    )
    return ConfirmFlow(admin, request, change).respond()


def pool_form_values(root: Pool) -> dict[str, Any]:
    """A pool as the values of its form."""
    gpu = pool_settings_of(root).gpu_resources or {"guarantee": NO_LIMIT, "maximum": NO_LIMIT, "weight": 1}
    special = {**gpu, "cohort": root.cohort.name if root.cohort else ""}
    by_flavor = {
        flavor_input(row["flavor"], key): row["quota"] if key == "guarantee" else row.get(key, "")
        for row in root.flavors
        for key in FLAVOR_KEYS
    }
    switches = {key: root.config.get(key, words[0]) for key, words in SWITCHES.items()} if _flavors_of(root) else {}
    return by_flavor | switches | {
        name: about.form_value(
            special[name] if name in special
            else getattr(root, about.column) if about.is_column
            else root.config.get(about.key)
        )
        for name, about in FIELDS_OF_FORM.items()
    }  # fmt: skip


def configurable_root(request: HttpRequest, pool: str) -> Pool:
    """The pool. Raises NotFound for one that the person may not see, Forbidden without the right to configure it."""
    actor = actor_of(request)
    root = get_visible_root(actor, pool)
    require_permission(actor, Permission.POOL_CONFIGURE, pool)
    return root
