"""Secrets that are created once and stored in the data directory, readable by their owner only."""

from __future__ import annotations

import json
import os
import secrets

from osmo_admin.ops.files.data_directory import DataDirectory, read_json_object, write_private_file

SECRET_KEY = "OSMO_SECRET_KEY"  # noqa: S105  (its name, not its value)
FORMER_KEYS = "OSMO_SECRET_KEY_FALLBACKS"


def load_secret_key(data: DataDirectory) -> str:
    """The key that signs sessions and tokens; created at the first start."""
    stored = read_json_object(data.secrets)
    if not stored.get(SECRET_KEY):
        stored[SECRET_KEY] = generate_secret_key()
        write_private_file(data.secrets, json.dumps(stored, indent=2) + "\n")
    return str(stored[SECRET_KEY])


def use_stored_keys(data: DataDirectory) -> None:
    """Let the settings of this process have the keys of the data directory; the environment wins."""
    os.environ.setdefault(SECRET_KEY, load_secret_key(data))
    os.environ.setdefault(FORMER_KEYS, ",".join(load_former_keys(data)))


def generate_secret_key() -> str:
    """A new key of 64 characters."""
    return secrets.token_urlsafe(48)


def load_former_keys(data: DataDirectory) -> list[str]:
    """The replaced keys that are still believed."""
    return [str(key) for key in read_json_object(data.secrets).get(FORMER_KEYS, [])]


def replace_secret_key(data: DataDirectory) -> None:
    """Make a new key; the present one becomes the first of the replaced ones."""
    former = [load_secret_key(data), *load_former_keys(data)]
    stored = read_json_object(data.secrets) | {SECRET_KEY: generate_secret_key(), FORMER_KEYS: former}
    write_private_file(data.secrets, json.dumps(stored, indent=2) + "\n")


def forget_former_keys(data: DataDirectory) -> int:
    """Remove the replaced keys; returns their number."""
    stored = read_json_object(data.secrets)
    former = stored.pop(FORMER_KEYS, [])
    write_private_file(data.secrets, json.dumps(stored, indent=2) + "\n")
    return len(former)


def generate_password() -> str:
    """A password to print once: letters and digits that cannot be confused, about 100 bits."""
    alphabet = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789"
    return "".join(secrets.choice(alphabet) for _ in range(18))
