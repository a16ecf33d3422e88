"""Names of new accounts. People compare them by eye, in approvals, the audit trail and lists of tokens, so letters that
look like others are refused; accounts that have such a name already keep it."""

from __future__ import annotations

import re

from pools.domain.errors import Fault, Violation

MAX_NAME_LENGTH = 150  # as long as the column
USER_NAME_RULE = (
    "1 to 150 characters, of the letters a to z (capitals too), digits, and . _ - @ +, and a letter or a digit first"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*", re.ASCII)


def user_name_violations(name: str) -> list[Violation]:
    """What is wrong with the name of a new account."""
    if not name:
        return [Violation("id", Fault.BAD_USERNAME, f"A user needs a name: {USER_NAME_RULE}.")]
    if len(name) > MAX_NAME_LENGTH:
        message = f"A user's name has at most {MAX_NAME_LENGTH} characters; this one has {len(name)}."
        return [Violation("id", Fault.BAD_USERNAME, message)]
    if not name.isascii() and all(letter.isalnum() or letter in "._@+-" for letter in name):
        message = (
            "The name has letters that are not a to z, and other people could take them for letters that are: "
            f"choose {USER_NAME_RULE}."
        )
        return [Violation("id", Fault.LOOK_ALIKE_USERNAME, message)]
    if not _NAME.fullmatch(name):
        return [Violation("id", Fault.BAD_USERNAME, f"This is not a valid user name: choose {USER_NAME_RULE}.")]
    return []
