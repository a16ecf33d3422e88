"""A directory for tests: OpenLDAP's slapd on free ports, with a certificate of its own authority and a folder of its
own. People and groups are made by the tests through LDAP."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from ldap3 import MODIFY_ADD, MODIFY_DELETE, MODIFY_REPLACE, SUBTREE, Connection, Server

from tests.support.optional_tools import find_slapd
from tests.support.stack import find_free_port

SUFFIX = "dc=corp,dc=example"
PEOPLE, GROUPS = f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}"
MANAGER, MANAGER_PASSWORD = f"cn=manager,{SUFFIX}", "manager-only-for-tests"
READER, READER_PASSWORD = f"cn=osmo,{SUFFIX}", "reader-only-for-tests"
AS_ENTRIES = [("2.16.840.1.113730.3.4.2", True, None)]  # of referrals, too (RFC 3296)

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
database mdb
maxsize 16777216
dbnosync
suffix "{suffix}"
rootdn "{manager}"
rootpw {manager_password}
directory {folder}/data
index objectClass,uid,mail,member,entryUUID eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""


class Directory:
    """One slapd. `urls` maps a kind of connection to its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "data").mkdir()
        write_certificates(folder)
        self.ca_file = str(folder / "ca.pem")
        plain, tls = find_free_port(), find_free_port()
        self.urls = {"starttls": f"ldap://127.0.0.1:{plain}", "ldaps": f"ldaps://127.0.0.1:{tls}"}
        text = CONFIGURATION.format(
            folder=folder, suffix=SUFFIX, manager=MANAGER, manager_password=MANAGER_PASSWORD, reader=READER
        )
        (folder / "slapd.conf").write_text(text)
        (folder / "slapd.conf").chmod(0o600)
        self.log = (folder / "log").open("wb")
        slapd = find_slapd()
        assert slapd is not None
        self.process = subprocess.Popen(
            [slapd, "-d", "0", "-f", str(folder / "slapd.conf"), "-h", " ".join(self.urls.values())],
            stdout=self.log,
            stderr=self.log,
        )
        self.manager = self._connect()
        self.add(SUFFIX, ["dcObject", "organization"], dc="corp", o="Corp")
        self.add(READER, ["organizationalRole", "simpleSecurityObject"], cn="osmo", userPassword=READER_PASSWORD)
        self.add(PEOPLE, ["organizationalUnit"], ou="people")
        self.add(GROUPS, ["organizationalUnit"], ou="groups")

    def _connect(self) -> Connection:
        connection = Connection(Server(self.urls["starttls"], get_info="NO_INFO"), MANAGER, MANAGER_PASSWORD)
        end = time.monotonic() + 60
        while not _answers(connection.server.port):
            assert self.process.poll() is None and time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)  # it has no event to wait for
        assert connection.bind(), connection.result
        return connection

    def close(self) -> None:
        """Stop the server."""
        self.manager.unbind()
        self.process.kill()
        self.process.wait()
        self.log.close()

    def clear(self) -> None:
        """Remove all people and groups."""
        for base in (PEOPLE, GROUPS):
            self.manager.search(base, "(objectClass=*)", SUBTREE, dereference_aliases="NEVER", controls=AS_ENTRIES)
            for entry in sorted((each["dn"] for each in self.manager.response), key=len, reverse=True):
                if entry != base:
                    self._done(self.manager.delete(entry, controls=AS_ENTRIES))

    def add(self, dn: str, classes: list[str], **attributes: Any) -> None:
        """Add an entry."""
        self._done(self.manager.add(dn, classes, attributes))

    def add_person(self, uid: str, password: str = "", **attributes: Any) -> str:
        """Add a person; the name of the entry."""
        dn = f"uid={uid},{PEOPLE}"
        values = {"uid": uid, "cn": uid, "sn": uid, **({"userPassword": password} if password else {}), **attributes}
        self.add(dn, ["inetOrgPerson"], **values)
        return dn

    def add_group(self, name: str, *members: str) -> None:
        """Add a group of entries."""
        self.add(f"cn={name},{GROUPS}", ["groupOfNames"], cn=name, member=[READER, *members])

    def join(self, group: str, member: str) -> None:
        """Add a member."""
        self._done(self.manager.modify(f"cn={group},{GROUPS}", {"member": [(MODIFY_ADD, [member])]}))

    def leave(self, group: str, member: str) -> None:
        """Remove a member."""
        self._done(self.manager.modify(f"cn={group},{GROUPS}", {"member": [(MODIFY_DELETE, [member])]}))

    def replace(self, dn: str, **values: Any) -> None:
        """Give attributes other values."""
        self._done(self.manager.modify(dn, {name: [(MODIFY_REPLACE, [value])] for name, value in values.items()}))

    def rename(self, dn: str, uid: str) -> str:
        """Rename a person; the new name of the entry. Groups that name the old one are brought in step."""
        self._done(self.manager.modify_dn(dn, f"uid={uid}"))
        return f"uid={uid},{PEOPLE}"

    def remove(self, dn: str) -> None:
        """Remove an entry."""
        self._done(self.manager.delete(dn))

    def _done(self, is_done: bool) -> None:
        assert is_done, self.manager.result


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write_certificates(folder: Path) -> None:
    """`ca.pem`, and `server.pem` with `server.key` for 127.0.0.1, signed by it."""
    now = datetime.datetime.now(datetime.UTC)
    until = now + datetime.timedelta(days=2)

    def build(subject: str, issuer: str, key: Any, signer: Any, *extensions: tuple[Any, bool]) -> x509.Certificate:
        builder = x509.CertificateBuilder()
        builder = builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        builder = builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(until)
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        return builder.sign(signer, hashes.SHA256())

    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = build("test authority", "test authority", authority, authority, (x509.BasicConstraints(True, None), True))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = build("127.0.0.1", "test authority", server, authority, (names, False))
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        server.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with suppress(OSError):
        (folder / "server.key").chmod(0o600)
