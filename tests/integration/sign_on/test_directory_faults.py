"""What a network, a directory or a wrong setting can do to a login with the password of a directory (LDAP)."""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path
from typing import Any, Self

import pytest

from pools.models import SignOnIdentity, User
from pools.sign_on import directories
from pools.sign_on.providers import LdapDirectory, SyncMode
from tests.integration.sign_on.conftest import directory_settings
from tests.integration.sign_on.test_directory_login import ANN, check_now, enter, errors_of, log_in, roles_of
from tests.support.directory import GROUPS, PEOPLE, SUFFIX, Directory

pytestmark = pytest.mark.ldap


def status(settings: LdapDirectory, configure: Any) -> int:
    """The status of ann's login with these settings."""
    configure(settings)
    return int(enter("ann", "ann-at-corp").status_code)


class TestTls:
    @pytest.mark.parametrize("kind", ["ldaps", "starttls"])
    def test_both_kinds(self, directory: Directory, configure: Any, kind: str) -> None:
        assert status(directory_settings(directory, urls=(directory.urls[kind],)), configure) == 302
        text = Path(directory.ca_file).read_text()
        changed = directory_settings(directory, urls=(directory.urls[kind],), ca_file="", ca_text=text)
        assert status(changed, configure) == 302

    @pytest.mark.parametrize("kind", ["ldaps", "starttls"])
    @pytest.mark.parametrize("fault", ["authority", "host"])
    def test_a_server_that_proves_nothing_gets_no_password(
        self, directory: Directory, configure: Any, kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An unknown authority, and a certificate of another host."""
        sent: list[bytes] = []
        monkeypatch.setattr("ldap3.core.connection.bind_operation", lambda *parts, **_: sent.append(parts[3]))
        url = directory.urls[kind] if fault == "authority" else directory.urls[kind].replace("127.0.0.1", "localhost")
        ca_file = "" if fault == "authority" else directory.ca_file
        assert status(directory_settings(directory, urls=(url,), ca_file=ca_file), configure) == 503
        assert sent == []

    def test_a_server_without_tls_gets_no_password(self, configure: Any, db: None, slapd: Directory) -> None:
        with AServer(b"0\x0c\x02\x01\x01x\x07\n\x01\x02\x04\x00\x04\x00") as server:  # protocolError, as to StartTLS
            settings = directory_settings(slapd, urls=(f"ldap://127.0.0.1:{server.port}",))
            assert status(settings, configure) == 503
        received = b"".join(server.received)
        assert b"1.3.6.1.4.1.1466.20037" in received and b"only-for-tests" not in received

    def test_plain_text_is_for_those_who_ask_for_it(self, directory: Directory, configure: Any) -> None:
        plain = directory_settings(directory, urls=(directory.urls["starttls"],), is_encrypted=False, ca_file="")
        assert status(plain, configure) == 302
        tls = directory_settings(directory, is_encrypted=False, ca_file="")
        assert status(tls, configure) == 503  # ldaps:// is checked nevertheless


class TestServers:
    def test_one_that_hangs_gives_the_thread_back(
        self, slapd: Directory, configure: Any, db: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(directories, "TIMEOUT", 1)
        with AServer(b"") as server:
            settings = directory_settings(slapd, urls=(f"ldap://127.0.0.1:{server.port}",), is_encrypted=False)
            assert status(settings, configure) == 503
            tls = directory_settings(slapd, urls=(f"ldaps://127.0.0.1:{server.port}",))
            assert status(tls, configure) == 503

    def test_one_that_answers_nonsense(
        self, slapd: Directory, configure: Any, db: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(directories, "TIMEOUT", 1)
        with AServer(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
            settings = directory_settings(slapd, urls=(f"ldap://127.0.0.1:{server.port}",), is_encrypted=False)
            assert status(settings, configure) == 503

    def test_few_are_asked_at_a_time(self, directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directories, "_calls", threading.BoundedSemaphore(1))
        with directories._calls:
            answer = enter("ann", "ann-at-corp")
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
        log_in()

    @pytest.mark.parametrize(
        "changes",
        [{"bind_password": "wrong"}, {"user_base": f"ou=nowhere,{SUFFIX}"}, {"bind_dn": "", "bind_password": ""}],
        ids=["wrong password of ours", "no such base", "anonymous searches are not allowed"],
    )
    def test_a_wrong_setting_is_logged_and_takes_nothing_away(
        self, directory: Directory, configure: Any, changes: dict[str, str], caplog: pytest.LogCaptureFixture
    ) -> None:
        log_in()
        caplog.set_level(logging.WARNING, logger="pools.sign_on.directories")
        assert status(directory_settings(directory, **changes), configure) == 503
        assert "The directory corp" in caplog.text and "only-for-tests" not in caplog.text
        check_now()
        assert roles_of("ann") == {"osmo-viewer"}

    def test_one_connection_serves_a_whole_check(self, directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
        directory.add_person("bob", "bob-at-corp")
        log_in()
        log_in("bob", "bob-at-corp")
        opened: list[Any] = []
        original = directories._open
        monkeypatch.setattr(directories, "_open", lambda each: opened.append(original(each)) or opened[-1])
        directory.leave("watchers", ANN)
        check_now()
        assert (len(opened), opened[0].closed, roles_of("ann")) == (1, True, set())

    def test_a_connection_that_breaks_during_a_check_takes_nothing_away(
        self, directory: Directory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log_in()
        directory.leave("watchers", ANN)
        with monkeypatch.context() as broken:
            broken.setattr("ldap3.strategy.sync.SyncStrategy.post_send_search", _break)
            check_now()
        assert roles_of("ann") == {"osmo-viewer"} and SignOnIdentity.objects.get().groups == ["watchers"]
        check_now()
        assert roles_of("ann") == set()

    def test_a_referral_is_not_followed(self, directory: Directory, configure: Any) -> None:
        """It leads to a server that would be sent our password, and ann's."""
        with AServer(b"") as elsewhere:
            directory.add(
                f"ou=elsewhere,{PEOPLE}",
                ["referral", "extensibleObject"],
                ou="elsewhere",
                ref=f"ldap://127.0.0.1:{elsewhere.port}/ou=people,{SUFFIX}",
            )
            log_in()  # the answer has a reference and the entry
            assert enter("nobody", "x").status_code == 200
            below = directory_settings(directory, user_base=f"ou=all,ou=elsewhere,{PEOPLE}")  # the answer is a referral
            assert status(below, configure) == 503
        assert elsewhere.received == []

    def test_an_alias_lets_in_nobody_from_outside_the_base(self, directory: Directory) -> None:
        outside = f"uid=eve,{SUFFIX}"
        directory.add(outside, ["inetOrgPerson"], uid="eve", cn="eve", sn="eve", userPassword="eve-at-corp")
        directory.add(f"uid=root,{PEOPLE}", ["alias", "extensibleObject"], uid="root", aliasedObjectName=outside)
        try:
            assert [enter(name, "eve-at-corp").status_code for name in ("eve", "root")] == [200, 200]
        finally:
            directory.remove(outside)
        assert not User.objects.exists()


class TestEntries:
    def test_an_entry_without_a_name(self, directory: Directory, configure: Any) -> None:
        configure(directory_settings(directory, username_attribute="employeeNumber"))
        assert enter("ann", "wrong").status_code == 200  # only the person sees why
        refused = enter("ann", "ann-at-corp")
        assert refused.status_code == 403 and "employeeNumber" in errors_of(refused)

    def test_a_name_that_no_account_can_have(self, directory: Directory, configure: Any) -> None:
        directory.replace(ANN, cn="ann smith")
        configure(directory_settings(directory, username_attribute="cn"))
        refused = enter("ann", "ann-at-corp")
        assert refused.status_code == 400 and "cannot be the name of an account here" in errors_of(refused)
        assert not User.objects.exists()

    def test_an_id_of_bytes(self, directory: Directory, configure: Any) -> None:
        """As Active Directory's objectGUID."""
        directory.replace(ANN, jpegPhoto=bytes([0x93, 0x28, 0x00, 0xFF, 0x2A, 0x5C]))
        configure(directory_settings(directory, id_attribute="jpegPhoto"))
        assert enter("ann", "ann-at-corp").status_code == 302
        assert SignOnIdentity.objects.get().subject == "0x932800ff2a5c"

    @pytest.mark.parametrize(
        ("subject", "wanted"), [("0x932800", "\\93\\28\\00"), ("a*)(b", "a\\2a\\29\\28b"), ("0f-3c", "0f-3c")]
    )
    def test_ids_in_filters(self, subject: str, wanted: str) -> None:
        assert directories._escaped_id(subject) == wanted

    def test_more_groups_than_anybody_has(
        self, directory: Directory, configure: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(directories, "MAX_GROUPS", 2)
        for number in range(3):
            directory.add_group(f"more-{number}", ANN)
        assert status(directory_settings(directory), configure) == 403

    def test_without_groups(self, directory: Directory, configure: Any) -> None:
        settings = directory_settings(directory, group_base="", sync=SyncMode.IGNORE, roles_by_group={})
        assert status(settings, configure) == 302
        assert SignOnIdentity.objects.get().groups == []

    def test_a_group_is_an_entry_below_the_base_of_groups(self, directory: Directory, configure: Any) -> None:
        """An entry of the same kind elsewhere, which others may write, gives no role."""
        directory.add(f"cn=admins,{PEOPLE}", ["groupOfNames"], cn="admins", member=ANN)
        configure(directory_settings(directory))
        log_in()
        assert SignOnIdentity.objects.get().groups == ["watchers"]
        assert GROUPS != PEOPLE


def _break(*_: object) -> None:
    raise ConnectionResetError


class AServer:
    """A server that answers everything with the same bytes, or nothing, until it is closed."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.received: list[bytes] = []
        self._connections: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            self.received.append(connection.recv(4096))
            if self.answer:
                connection.sendall(self.answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()
