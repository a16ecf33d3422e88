"""The files of a backup: a manifest, the dump of the database, and apart from both the secrets.

DIR/manifest.json   versions, counts, sizes and checksums; it is written last
DIR/database.dump   `pg_dump --format=custom`; `database.dump.age` if it is encrypted

Encryption is that of age (https://age-encryption.org): with the public key of a recipient, so that the machine that
makes backups cannot read them, and so that the tools `age` and `rage` open them too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, Self

import pyrage

from osmo_admin.ops.programs.errors import OperationError

FORMAT = 1
MANIFEST = "manifest.json"
DUMP = "database.dump"
ENCRYPTED = ".age"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup is. `migrations` has the applied ones as `app.name`, `rows` the number of rows of each table in the
    very snapshot of the dump, `key_mark` a text that is equal for equal secret keys and reveals nothing of the key."""

    made_at: str
    osmo_admin: str
    postgresql: int
    pg_dump: int
    file: str
    size: int
    sha256: str
    migrations: Sequence[str]
    rows: dict[str, int]
    key_mark: str
    format: int = FORMAT

    @property
    def is_encrypted(self) -> bool:
        """Whether an identity is needed to read the dump."""
        return self.file.endswith(ENCRYPTED)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, which makes the folder a backup."""
    write_new_file(folder / MANIFEST, (json.dumps(asdict(manifest), indent=2) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a backup. Raises OperationError if the folder is not a backup, or is one of a later version."""
    path = folder / MANIFEST
    try:
        content: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise OperationError(
            f"{folder} is not a backup: it has no {MANIFEST}. A backup that was interrupted has none either."
        ) from None
    except (OSError, ValueError) as problem:
        raise OperationError(f"{path} cannot be read: {problem}.") from problem
    if isinstance(content, dict) and isinstance(content.get("format"), int) and content["format"] > FORMAT:
        raise OperationError(
            f"The backup in {folder} has format {content['format']}; this version of OSMO Admin reads formats up to "
            f"{FORMAT}. Restore it with the version that made it ({content.get('osmo_admin', 'unknown')}), or a "
            "later one."
        )
    try:
        manifest = Manifest(**content)
    except TypeError as problem:
        raise OperationError(f"{path} is not the manifest of a backup: {problem}.") from problem
    if manifest.file not in (DUMP, DUMP + ENCRYPTED) or not isinstance(manifest.rows, dict):
        raise OperationError(f"{path} is not the manifest of a backup: it names the file {manifest.file!r}.")
    return manifest


def check_dump(folder: Path, manifest: Manifest) -> Path:
    """The path of the dump, if it is the one of the manifest. Raises OperationError if it is missing or damaged."""
    path = folder / manifest.file
    digest = hashlib.sha256()
    try:
        with path.open("rb") as source:
            while part := source.read(1 << 20):
                digest.update(part)
            size = source.tell()
    except OSError as problem:
        raise OperationError(f"The dump {path} cannot be read: {problem}.") from problem
    if size != manifest.size or digest.hexdigest() != manifest.sha256:
        raise OperationError(
            f"The dump {path} is damaged: it has {size} bytes and the checksum {digest.hexdigest()[:12]}…, the "
            f"manifest says {manifest.size} bytes and {manifest.sha256[:12]}…. Take another "
            "copy of this backup, or another backup."
        )
    return path


def write_new_file(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read. Raises OperationError if it exists."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        raise OperationError(f"{path} exists already. Name a new file.") from None
    except OSError as problem:
        raise OperationError(f"{path} cannot be written: {problem}.") from problem


class ByteSource(Protocol):
    """A stream of bytes."""

    def read(self, size: int = ..., /) -> bytes: ...


@dataclass
class CountingFile:
    """A new file that only its owner can read; it counts its bytes and computes their checksum."""

    path: Path
    size: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)
    _out: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._out = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._out is not None
        self._out.flush()
        os.fsync(self._out.fileno())
        self._out.close()

    def write(self, part: bytes) -> int:
        """Write a part."""
        assert self._out is not None
        self._out.write(part)
        self._digest.update(part)
        self.size += len(part)
        return len(part)

    def flush(self) -> None:
        """Nothing waits in here."""

    @property
    def sha256(self) -> str:
        """The checksum of everything written so far."""
        return str(self._digest.hexdigest())


def read_recipients(texts: Sequence[str]) -> list[Any]:
    """The public keys. Raises OperationError for a text that is not a key."""
    try:
        return [pyrage.x25519.Recipient.from_str(text.strip()) for text in texts]
    except pyrage.RecipientError as problem:
        raise OperationError(
            f"A recipient is not valid ({problem}). A public key of age begins with age1; make a pair of keys with "
            "osmo-admin backup-identity FILE, or age-keygen."
        ) from problem


def read_identities(path: Path) -> list[Any]:
    """The secret keys in a file, as `age-keygen` writes it. Raises OperationError."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
        found = [pyrage.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except (OSError, UnicodeDecodeError, pyrage.IdentityError) as problem:
        raise OperationError(f"The identity file {path} cannot be read: {problem}.") from problem
    if not found:
        raise OperationError(
            f"The identity file {path} has no key: a line that begins with AGE-SECRET-KEY-1 is needed."
        )
    return found


def new_identity(path: Path) -> str:
    """Write a new secret key; returns its public key. Raises OperationError if the file exists."""
    identity = pyrage.x25519.Identity.generate()
    public = str(identity.to_public())
    write_new_file(path, f"# public key: {public}\n{identity}\n".encode())
    return public


def copy_encrypted(source: ByteSource, target: CountingFile, recipients: Sequence[Any]) -> None:
    """Copy a stream, encrypted if there are recipients. Plain text reaches no file then."""
    if recipients:
        pyrage.encrypt_io(source, target, list(recipients))
        return
    while part := source.read(1 << 20):
        target.write(part)


def copy_decrypted(source: IO[bytes], target: IO[bytes], identities: Sequence[Any]) -> None:
    """Copy a stream, decrypted if there are identities. Raises OperationError if none of them fits."""
    if not identities:
        while part := source.read(1 << 20):
            target.write(part)
        return
    try:
        pyrage.decrypt_io(source, target, list(identities))
    except pyrage.DecryptError as problem:
        raise OperationError(
            f"The backup cannot be decrypted with this identity ({problem}). Name the file with the secret key of one "
            "of its recipients."
        ) from problem


def encrypt_bytes(content: bytes, recipients: Sequence[Any]) -> bytes:
    """A short text, encrypted."""
    return bytes(pyrage.encrypt(content, list(recipients)))


def read_secrets(path: Path, identities: Sequence[Any]) -> dict[str, Any]:
    """The content of a file of secrets, decrypted if it is encrypted. Raises OperationError."""
    try:
        content = path.read_bytes()
        if content.startswith(b"age-encryption.org/"):
            if not identities:
                raise OperationError(f"{path} is encrypted. Name the secret key with --identity FILE.")
            content = bytes(pyrage.decrypt(content, list(identities)))
        found: Any = json.loads(content)
    except (OSError, ValueError, pyrage.DecryptError) as problem:
        raise OperationError(f"The secrets in {path} cannot be read: {problem}.") from problem
    if not isinstance(found, dict) or not isinstance(found.get("OSMO_SECRET_KEY"), str):
        raise OperationError(f"{path} is not a file of secrets of osmo-admin backup: OSMO_SECRET_KEY is missing.")
    return found
