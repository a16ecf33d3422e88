"""The audit entries of a mounted file that cannot be applied. Nobody looks at the log of its process."""

from __future__ import annotations

import hashlib

from django.db.models.functions import Now

from pools.database.transactions import change
from pools.domain.errors import DomainError, Violation
from pools.domain.people.roles import Actor
from pools.permissions import require_platform
from scheduling.configuration.files import BadFiles
from scheduling.models import RefusedFile

MAX_MESSAGE = 4000


def record_refused_file(*, actor: Actor, source: str, path: str, content: bytes, refusal: DomainError) -> None:
    """Leave an entry in the audit trail, once for each content."""
    require_platform(actor)
    digest = hashlib.sha256(content).hexdigest()
    if RefusedFile.objects.filter(pk=source, path=path, digest=digest).exists():
        return
    places = [_place(each) for each in refusal.details] or [refusal.message]
    count = refusal.count if isinstance(refusal, BadFiles) else len(places)
    values = {"path": path, "digest": digest, "faults": count, "message": "\n".join(places)[:MAX_MESSAGE]}
    with change(actor=actor):
        if not RefusedFile.objects.filter(pk=source).update(**values, refused_at=Now()):
            RefusedFile.objects.create(source=source, **values)


def _place(fault: Violation) -> str:
    file = dict(fault.numbers).get("file")
    place = f"{file}:{fault.line}: " if file and fault.line else f"{file}: " if file else ""
    return f"{place}{fault.message}"


def forget_refused_file(*, actor: Actor, source: str) -> None:
    """A content of this source was applied: what was refused before no longer matters."""
    require_platform(actor)
    if RefusedFile.objects.filter(pk=source).exists():
        with change(actor=actor):
            RefusedFile.objects.filter(pk=source).delete()
