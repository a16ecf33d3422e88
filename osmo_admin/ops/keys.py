"""Secrets that are created once and stored in the data directory, readable by their owner only."""

from __future__ import annotations

import json
import secrets

from osmo_admin.ops.data_directory import DataDirectory, read_json_object, write_private_file

SECRET_KEY = "OSMO_SECRET_KEY"  # noqa: S105  (its name, not its value)


def load_secret_key(data: DataDirectory) -> str:
    """The key that signs sessions and tokens; created at the first start."""
    stored = read_json_object(data.secrets)
    if not stored.get(SECRET_KEY):
        stored[SECRET_KEY] = secrets.token_urlsafe(48)
        write_private_file(data.secrets, json.dumps(stored, indent=2) + "\n")
    return str(stored[SECRET_KEY])


def generate_password() -> str:
    """A password to print once: letters and digits that cannot be confused, about 100 bits."""
    alphabet = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ23456789"
    return "".join(secrets.choice(alphabet) for _ in range(18))
