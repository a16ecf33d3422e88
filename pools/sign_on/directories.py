"""LDAP as the client of a directory: a person's password, and the groups of a person.

A search with the account of OSMO Admin finds the one entry of a typed name; a bind as this entry checks the password.
Referrals and aliases are not followed: they would lead the password to another server. Certificates and host names are
checked by Python's own TLS. ldap3 (the extra `ldap`) is loaded on first use.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pools.domain.errors import Busy, Fault, Forbidden, Throttled, Violation
from pools.security.tls_sockets import close_unfinished
from pools.sign_on.providers import MAX_GROUPS, MAX_TEXT, LdapDirectory, ProviderFacts

if TYPE_CHECKING:
    from ldap3 import Connection, Tls

logger = logging.getLogger(__name__)

TIMEOUT = 3  # whole seconds for each answer of a server
CALLS_AT_ONCE = 2  # of the threads of a web process; a directory that hangs must not hold them all
SUCCESS, SIZE_LIMIT_EXCEEDED = 0, 4
WRONG_PASSWORD = {19, 32, 48, 49, 50, 53}
"""Results of a bind (RFC 4511, appendix A.1) that refuse this person: also an account that is locked or has expired."""

_calls = threading.BoundedSemaphore(CALLS_AT_ONCE)


class Gone(Forbidden):
    """The directory has no such person any more."""


class Ambiguous(Forbidden):
    """Several entries match the typed name."""


def check_password(directory: LdapDirectory, username: str, password: str) -> ProviderFacts | None:
    """The facts of the person with this name and password; None if one of them is wrong. Raises Ambiguous, Forbidden
    (an entry that lacks what an account needs), Busy, Throttled."""
    if not password or not _can_be_a_name(username):
        return None
    try:
        encoded = password.encode()  # bytes are sent as they are; a text would be prepared, perhaps to an empty one
    except UnicodeEncodeError:
        return None
    names = "".join(f"({name}={_escaped(username)})" for name in directory.login_attributes)
    with _connected(directory) as connection:
        found = _search(directory, connection, directory.user_base, f"(&{directory.user_filter}(|{names}))", limit=1)
        if not found:
            return None
        if len(found) > 1:
            logger.warning("%s: several entries match the name %r; nobody was logged in.", directory.name, username)
            message = f"Several people of {directory.title} have this name. Log in with a name that is yours alone."
            raise Ambiguous.of([Violation("username", Fault.AMBIGUOUS_NAME, message)])
        facts: ProviderFacts | Forbidden
        try:
            facts = _facts(directory, connection, found[0])
        except Forbidden as refusal:  # shown to the person alone, so after the password
            facts = refusal
        if not _binds(directory, connection, found[0]["dn"], encoded):
            return None
        if isinstance(facts, Forbidden):
            raise facts
        return facts


@contextmanager
def people_of(directory: LdapDirectory) -> Iterator[Callable[[str], ProviderFacts]]:
    """A function that reads the facts of the person with an id as they are now, all with one connection: TLS takes
    longer than the searches. It raises Gone, Forbidden, Busy; the beginning raises Busy, Throttled."""
    with _connected(directory) as connection:

        def read(subject: str) -> ProviderFacts:
            wanted = f"(&{directory.user_filter}({directory.id_attribute}={_escaped_id(subject)}))"
            with _faults_as_busy(directory):
                found = _search(directory, connection, directory.user_base, wanted, limit=1)
                if len(found) != 1:
                    message = f"{directory.title} no longer has this person among those who may log in."
                    raise Gone.of([Violation("", Fault.GONE_FROM_DIRECTORY, message)])
                return _facts(directory, connection, found[0])

        yield read


def try_connection(directory: LdapDirectory) -> None:
    """Connect and bind with the account of OSMO Admin. Raises Busy, Throttled."""
    with _connected(directory):
        return


def _can_be_a_name(text: str) -> bool:
    return 0 < len(text) <= MAX_TEXT and text.isprintable()


def _escaped(value: str) -> str:
    from ldap3.utils.conv import escape_filter_chars  # noqa: PLC0415  # loaded by sign-ons only

    return str(escape_filter_chars(value))


def _text_of_id(value: bytes) -> str:
    """An id as text; a binary one, as Active Directory's objectGUID, as `0x` and its digits."""
    try:
        text = value.decode("ascii")
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and text and not text.startswith("0x") else f"0x{value.hex()}"


def _escaped_id(subject: str) -> str:
    if not subject.startswith("0x"):
        return _escaped(subject)
    digits = subject.removeprefix("0x")
    return "".join(f"\\{digits[place : place + 2]}" for place in range(0, len(digits), 2))


@contextmanager
def _connected(directory: LdapDirectory) -> Iterator[Connection]:
    """A connection with the account of OSMO Admin, to the first server that answers."""
    if not _calls.acquire(blocking=False):
        message = f"{directory.title} answers for many people right now. Try again in a moment."
        raise Throttled(message, retry_after=2)
    try:
        connection = _open(directory)
        try:
            with _faults_as_busy(directory):
                yield connection
        finally:
            _close(connection)
    finally:
        _calls.release()


@contextmanager
def _faults_as_busy(directory: LdapDirectory) -> Iterator[None]:
    from ldap3.core.exceptions import LDAPException  # noqa: PLC0415  # loaded by sign-ons only

    try:
        yield
    except (LDAPException, OSError) as error:
        raise _unreachable(directory, str(error)) from error


def _open(directory: LdapDirectory) -> Connection:
    from ldap3.core.exceptions import LDAPException  # noqa: PLC0415  # loaded by sign-ons only

    problems = []
    for url in directory.urls:
        connection = _new_connection(directory, url)
        try:
            connection.open(read_server_info=False)
            if directory.is_encrypted and not connection.server.ssl:
                connection.start_tls(read_server_info=False)
            if connection.bind(read_server_info=False):
                return connection
            problem = f"refuses the account {directory.bind_dn or 'of anonymous searches'} ({_result(connection)})"
        except (LDAPException, OSError) as error:
            problem = str(error)
        _close(connection)
        problems.append(f"{url}: {problem}")
    raise _unreachable(directory, "; ".join(problems))


def _close(connection: Connection) -> None:
    connection.strategy.close()
    if connection.socket is not None:  # ldap3 leaves the socket of a failed attempt open
        connection.socket.close()


def _new_connection(directory: LdapDirectory, url: str) -> Connection:
    from ldap3 import ANONYMOUS, NONE, SIMPLE, SYNC, Connection, Server  # noqa: PLC0415  # loaded by sign-ons only

    parts = urlsplit(url)
    is_tls = parts.scheme == "ldaps"
    server = Server(
        parts.hostname,
        port=parts.port or (636 if is_tls else 389),
        use_ssl=is_tls,
        tls=_verified_tls(directory),
        get_info=NONE,
        connect_timeout=TIMEOUT,
    )
    return Connection(
        server,
        user=directory.bind_dn or None,
        password=directory.bind_password.encode() or None,
        authentication=SIMPLE if directory.bind_dn else ANONYMOUS,
        client_strategy=SYNC,
        auto_bind=False,
        auto_referrals=False,
        read_only=True,
        check_names=False,
        receive_timeout=TIMEOUT,
    )


def authorities(directory: LdapDirectory) -> ssl.SSLContext:
    """The context that checks the certificate of a directory. Raises OSError if its authorities cannot be read."""
    return close_unfinished(
        ssl.create_default_context(cafile=directory.ca_file or None, cadata=directory.ca_text or None)
    )


def _verified_tls(directory: LdapDirectory) -> Tls:
    """ldap3's TLS with the checks of the standard library: ldap3 itself compares the host name in code of its own."""
    tls = _tls_class()(validate=ssl.CERT_REQUIRED)
    tls.context = authorities(directory)
    return tls


@lru_cache(maxsize=1)
def _tls_class() -> type[Any]:
    from ldap3 import Tls  # noqa: PLC0415  # loaded by sign-ons only

    class VerifiedTls(Tls):  # type: ignore[misc]
        context: ssl.SSLContext

        def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
            connection.socket = self.context.wrap_socket(connection.socket, server_hostname=connection.server.host)

    return VerifiedTls


def _search(
    directory: LdapDirectory, connection: Connection, base: str, wanted: str, *, limit: int
) -> list[Mapping[str, Any]]:
    """The entries, at most one more than the limit. References to other servers are left out."""
    from ldap3 import DEREF_NEVER, SUBTREE  # noqa: PLC0415  # loaded by sign-ons only

    names = {directory.id_attribute, directory.username_attribute, directory.mail_attribute, directory.group_attribute}
    connection.search(
        base,
        wanted,
        search_scope=SUBTREE,
        dereference_aliases=DEREF_NEVER,
        attributes=sorted(name for name in names if name),
        size_limit=limit + 1,
        time_limit=TIMEOUT,
    )
    if connection.result["result"] not in {SUCCESS, SIZE_LIMIT_EXCEEDED}:
        raise _unreachable(directory, f"refuses to search {base} ({_result(connection)})")
    return [each for each in connection.response or () if each["type"] == "searchResEntry"]


def _binds(directory: LdapDirectory, connection: Connection, dn: str, password: bytes) -> bool:
    """Whether the password is that of the entry. The connection is the person's afterwards."""
    connection.rebind(user=dn, password=password, authentication="SIMPLE", read_server_info=False)
    result = connection.result["result"]
    if result in WRONG_PASSWORD:
        return False
    if result != SUCCESS:
        raise _unreachable(directory, f"does not check the password of {dn} ({_result(connection)})")
    return True


def _facts(directory: LdapDirectory, connection: Connection, entry: Mapping[str, Any]) -> ProviderFacts:
    found = {name.lower(): values for name, values in entry["raw_attributes"].items()}
    ids = found.get(directory.id_attribute.lower(), [])
    if len(ids) != 1 or len(subject := _text_of_id(ids[0])) > MAX_TEXT:
        raise _unusable(directory, directory.id_attribute, "one id that never changes")
    names = sorted(value.decode(errors="replace") for value in found.get(directory.username_attribute.lower(), []))
    if not names or not _can_be_a_name(names[0]):
        raise _unusable(directory, directory.username_attribute, "a name")
    mails = [value.decode(errors="replace") for value in found.get(directory.mail_attribute.lower(), [])]
    return ProviderFacts(
        issuer=directory.issuer,
        subject=subject,
        username=names[0],
        email=mails[0] if mails and len(mails[0]) <= MAX_TEXT and mails[0].isprintable() else "",
        groups=_groups(directory, connection, entry["dn"], names[0]),
        is_renewable=True,
    )


def _groups(directory: LdapDirectory, connection: Connection, dn: str, username: str) -> tuple[str, ...]:
    if not directory.group_base:
        return ()
    values = {"{dn}": _escaped(dn), "{username}": _escaped(username)}
    wanted = re.sub(r"\{dn\}|\{username\}", lambda match: values[match[0]], directory.group_filter)
    found = _search(directory, connection, directory.group_base, wanted, limit=MAX_GROUPS)
    if len(found) > MAX_GROUPS:
        raise _unusable(directory, directory.group_attribute, f"at most {MAX_GROUPS:,} groups")
    names = set()
    for entry in found:
        attributes = {name.lower(): values for name, values in entry["raw_attributes"].items()}
        names |= {value.decode(errors="replace") for value in attributes.get(directory.group_attribute.lower(), [])}
    return tuple(sorted(name for name in names if _can_be_a_name(name)))


def _result(connection: Connection) -> str:
    found = connection.result or {}
    return f"{found.get('result')} {found.get('description')}: {found.get('message') or '-'}"


def _unreachable(directory: LdapDirectory, reason: str) -> Busy:
    logger.warning("The directory %s: %s", directory.name, reason)
    return Busy(
        f"{directory.title} does not answer. Try again in a moment; an account with a password here can log in "
        "without it.",
        retry_after=5,
    )


def _unusable(directory: LdapDirectory, attribute: str, expected: str) -> Forbidden:
    message = f"Your entry in {directory.title} does not have {expected} ({attribute}). Ask the people who run it."
    return Forbidden(message, [Violation(attribute, Fault.UNUSABLE_ENTRY, message)])
