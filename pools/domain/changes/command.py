"""The declaration of a change, and the reading and writing of its values as JSON.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ResizeSubpool(ChangeCommand):
        '''Change the quota of a subpool.'''

        service: ClassVar = "resize_subpool"
        parent: str = in_address("PARENT", "Pool", "Pool that has the subpools.")
        quota: object = value(QUOTA, "Quota in GPUs", "A whole number of GPUs, or a share of the pool such as 25%.")

Its fields are declared values (:mod:`pools.domain.structured_input.declared_values`). Rules that need the state of the
ledger stay in the service of the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from pools.domain.audit_actions import AuditAction
from pools.domain.configuration.ownership import OwnedKind
from pools.domain.errors import BadInput, Fault, Violation
from pools.domain.people.roles import Permission
from pools.domain.structured_input.declared_values import DeclaredValue, fields_of, read_fields
from pools.domain.structured_input.fields import FieldReader

CommandT = TypeVar("CommandT", bound="ChangeCommand")


class ChangeCommand:
    """One change. `service` is the name of its service, stored with a request for an approval; the docstring is its
    sentence for the API document. `audit`: the actions under which the audit trail has it, the usual one first; none
    if it changes nothing that is audited. `permission` is needed on the pool that the field `pool_field` names (on the
    platform if it is empty); None: the service judges, by the owner of the object. `needs_version`: a caller may name
    the version of the object that it has seen. `has_preview`: a dry run shows the effect.
    `is_one_transaction`: its service may be called within another transaction.
    `owned_kind`: the kind of the object that Git may own; `is_of_subpools`: only where it owns the subpools, too."""

    __slots__ = ()
    service: ClassVar[str]
    audit: ClassVar[tuple[AuditAction, ...]]
    permission: ClassVar[Permission | None]
    pool_field: ClassVar[str] = ""
    needs_version: ClassVar[bool] = True
    has_preview: ClassVar[bool] = True
    may_need_approval: ClassVar[bool] = False
    has_tags: ClassVar[bool] = False
    is_one_transaction: ClassVar[bool] = True
    owned_kind: ClassVar[OwnedKind | None] = None
    is_of_subpools: ClassVar[bool] = False
    format: ClassVar[int] = 1
    """The version of the stored form. A new field with a default does not need another one."""

    def as_json(self) -> dict[str, Any]:
        """The values of all fields as stored JSON, without secrets."""
        found = {name: about.kind for name, about in fields_of(type(self)).items() if not about.kind.is_secret}
        return {name: kind.write(getattr(self, name)) for name, kind in found.items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], stored_format: int = 1) -> Self:
        """The change of stored JSON. A missing field has its default. Raises BadInput for JSON that another version of
        the product wrote and this one cannot read."""
        if stored_format > cls.format:
            message = f"This change was stored in format {stored_format}; formats up to {cls.format} can be read here."
            raise BadInput(message, [Violation("", Fault.BAD_VALUE, message)])
        return read_command(cls, {**stored, **cls.upgrade(stored, stored_format)})

    @classmethod
    def upgrade(cls, _stored: Mapping[str, Any], _stored_format: int) -> Mapping[str, Any]:
        """The values that differ between a stored form of an earlier `format` and the present one."""
        return {}

    @classmethod
    def note_faults(cls, _reader: FieldReader) -> None:
        """Note faults of several fields together, such as two of which one is needed."""


def body_fields(kind: type[ChangeCommand]) -> dict[str, DeclaredValue]:
    """The fields that a caller fills in: all but those of address and query."""
    return {name: about for name, about in fields_of(kind).items() if not (about.in_address or about.in_query)}


def summary_of(kind: type[ChangeCommand]) -> str:
    """The sentences of a change: the first paragraph of its docstring."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def title_of(command: ChangeCommand) -> str:
    """What a change does, and to what: `Resize subpool team--a`."""
    names = [str(getattr(command, name)) for name, about in fields_of(type(command)).items() if about.in_address]
    return " ".join([command.service.replace("_", " ").capitalize(), "--".join(names)]).strip()


def read_command(
    kind: type[CommandT],
    values: Mapping[str, Any],
    address: Mapping[str, Any] | None = None,
    found: Sequence[Violation] = (),
) -> CommandT:
    """The change of these values: a JSON object of the fields that `address` does not have. Raises BadInput with every
    fault: those that were `found` before, unknown keys, missing keys, values of another kind."""
    given, faults = dict(address or {}), list(found)
    reader = FieldReader(values, "", faults)
    fields = {name: about for name, about in fields_of(kind).items() if name not in given}
    reader.reject_unknown_keys(fields)
    given |= read_fields(reader, fields)
    kind.note_faults(reader)
    if faults:
        raise BadInput.of(faults)
    return kind(**given)
