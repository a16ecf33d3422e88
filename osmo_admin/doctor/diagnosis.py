"""Everything that `osmo-admin doctor` finds: what this process reaches, what each running process reports about itself,
and what follows from the reports together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from django.core import checks as django_checks
from django.db import Error as DatabaseError
from django.db import connection

from osmo_admin import __version__
from osmo_admin.doctor import checks
from osmo_admin.doctor.findings import Finding
from osmo_admin.doctor.reports import Report, ask_processes
from osmo_admin.ops.programs import process_commands
from osmo_admin.processes.database_roles import powers_warning
from pools.models import Backend, SecretKeyCheck
from pools.security.sealing import find_reading_key, key_marks
from pools.services.changes.secret_key import list_unreadable

ANSWER_SECONDS = 20.0
HERE = "here"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings by place: `here`, the name of a process, or `installation` for what concerns all of them."""

    findings: tuple[tuple[str, Finding], ...]

    @property
    def is_ok(self) -> bool:
        """Whether nothing was found."""
        return all(finding.ok for _, finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as a JSON object."""
        rows = [{"place": place, **finding.as_json()} for place, finding in self.findings]
        return {"ok": self.is_ok, "version": __version__, "findings": rows}


def diagnose(*, seconds: float = ANSWER_SECONDS) -> Diagnosis:
    """Run every check. Waits at most `seconds` for the processes; raises nothing that a missing server causes."""
    found = [(HERE, finding) for finding in _here()]
    try:
        reports = list(ask_processes(seconds=seconds))
    except redis.RedisError:
        message = "The broker does not answer from here, so the processes report nothing."
        found.append(("installation", Finding("process", "", False, message, "See the check of the broker above.")))
        return Diagnosis(tuple(found))
    found += [("installation", finding) for finding in compare(reports, has_clusters=_has_clusters())]
    found += [(report.name, finding) for report in reports for finding in report.findings]
    return Diagnosis(tuple(found))


def compare(reports: Sequence[Report], *, has_clusters: bool) -> Iterator[Finding]:
    """What is wrong between the processes: missing ones, other versions, other keys."""
    needed = [process_commands.WEB, process_commands.WORKER, process_commands.BEAT]
    needed += [process_commands.CLUSTERS] if has_clusters else []
    by_kind: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        by_kind[report.kind].append(report)
    for kind in dict.fromkeys([*needed, *by_kind]):
        names = [f"{report.host} (process {report.pid})" for report in by_kind[kind]]
        if not names:
            advice = f"Start it: osmo-admin serve {kind}, or osmo-admin up. If it runs, it does not reach this broker."
            yield Finding("process", kind, False, f"No {kind} process has reported within a minute.", advice)
        else:
            yield Finding("process", kind, True, f"{kind} runs: {', '.join(names)}.")
    if not reports:
        return
    older = [f"{report.name} has {report.version}" for report in reports if report.version != __version__]
    if older:
        message = f"Other versions than here ({__version__}): {', '.join(older)}."
        yield Finding("version", "", False, message, "Finish the upgrade: start the older ones again.")
    else:
        yield Finding("version", "", True, f"Every process has version {__version__}.")
    own = key_marks()
    foreign = [report.name for report in reports if not _read_each_other(own, report.key_marks)]
    if foreign:
        message = f"Another secret key than here: {', '.join(foreign)}."
        advice = "Give every process the same OSMO_SECRET_KEY, and start it again."
        yield Finding("key", "", False, message, advice)
    else:
        yield Finding("key", "", True, "Every process reads what the others seal.")


def _read_each_other(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether each of two processes knows the present key of the other, as during a change of the key in steps."""
    return one[0] in other and other[0] in one


def _here() -> Iterator[Finding]:
    """From the process of the command: servers, settings, the role of the database, stored secrets."""
    yield from checks.run_checks(process_commands.WORKER, all_of_them=True)
    yield from _settings()
    yield from _database_role()
    yield from _stored_secrets()


def _settings() -> Iterator[Finding]:
    messages = django_checks.run_checks(include_deployment_checks=False)
    for message in messages:
        yield Finding("settings", message.id or "", False, str(message.msg), str(message.hint or ""))
    if not messages:
        yield Finding("settings", "", True, "The settings have no fault.")


def _database_role() -> Iterator[Finding]:
    try:
        warning = powers_warning(connection.settings_dict["USER"])
    except DatabaseError:
        return  # named by its own check
    finally:
        connection.close()
    if warning is None:
        yield Finding("database role", "", True, "The role of DATABASE_URL can read and write rows, and nothing more.")
    else:
        about, _, advice = warning.partition(" Name a lesser role")
        yield Finding("database role", "", False, about, f"Name a lesser role{advice}")


def _stored_secrets() -> Iterator[Finding]:
    try:
        sealed = SecretKeyCheck._default_manager.filter(pk=1).values_list("sealed", flat=True).first()
        unreadable = list_unreadable()
    except DatabaseError:
        return
    finally:
        connection.close()
    if sealed is not None and find_reading_key(sealed) is None:
        advice = "Set the OSMO_SECRET_KEY that the other processes of this installation have."
        yield Finding("key", "database", False, "The secret key here is not the one of this database.", advice)
    for name in unreadable:
        advice = "Put the key that sealed it into OSMO_SECRET_KEY_FALLBACKS, or store it again."
        yield Finding("stored secret", name, False, f"{name} cannot be read with the present keys.", advice)
    if not unreadable:
        yield Finding("stored secret", "", True, "Every stored secret can be read with the present keys.")


def _has_clusters() -> bool:
    try:
        return Backend.objects.filter(kind=Backend.Kind.KUBERNETES).exists()
    except DatabaseError:
        return False
    finally:
        connection.close()
