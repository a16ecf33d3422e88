"""The variables of the operator as documents, by `make reference`: the page docs/settings.md and the file
deploy/osmo-admin.env."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from osmo_admin.env import SECTIONS, SECTIONS_OF_NAMES
from osmo_admin.settings_sections import SettingsSection, Variable

PAGE_HEAD = """\
# Settings

<!-- Generated from osmo_admin/env.py by `make reference`. -->

For operators: every variable of the server, with its default. A wrong value stops the start with a message that names
the variable. `deploy/osmo-admin.env` has them as a file for compose and systemd. In the chart each is `settings.NAME`
(as text in quotes), except those of [the last table](#in-the-chart). Lists are separated by commas. A switch is `true`
or `false`; `yes`, `on` and `1`, or `no`, `off` and `0`, are the same. A command for a running `osmo-admin up` takes the
addresses and the key from its data directory; with another `DATABASE_URL` it takes nothing from there.
"""

PAGE_END = """\
## In the chart

| variable | value of the chart |
|---|---|
| `OSMO_PUBLIC_URL`, and with it `OSMO_SECURE` | `publicUrl` |
| `OSMO_PROXY_COUNT`, `OSMO_LOG_FORMAT` | `proxyCount`, `logFormat` |
| `OSMO_TRACES_URL`, `OSMO_TRACES_SHARE` | `tracing.url`, `tracing.share` |
| `OSMO_KUBECONFIG_DIR` | `kubeconfigs.secretName` |
| `OSMO_SSO…`, `OSMO_LDAP…`, `OSMO_PASSWORD_LOGIN` | `signOn` |
| `OSMO_CONFIG_FILE` | `follow` |
| `OSMO_SECRET_KEY`, `DATABASE_URL`, `REDIS_URL` | keys of the Secret `secrets.runtime` |
| `OSMO_SECRET_KEY_FALLBACKS`, `OSMO_MAIL_URL`, `OSMO_SLACK_TOKEN` | further keys of it, because they are secrets |
| `OSMO_OWNER_DATABASE_URL`, `OSMO_ADMIN_PASSWORD` | keys of the Secret `secrets.setup` |
| `OSMO_ADMIN_HOME`, `OSMO_WEBHOOK_AUTHORITY`, `PROMETHEUS_MULTIPROC_DIR` | set by the chart, or never |
| `OSMO_DEBUG`, `OSMO_DEV_LOGIN` | set by the chart, or never |

`settings.OSMO_ALLOWED_HOSTS` adds host names to that of `publicUrl`. A name that the server does not know is refused,
so that a mistyped one is noticed.
"""

FILE_HEAD = """\
# All settings of the operator with their defaults, written by `make reference` down to the line "By hand". Set the
# lines without # on a server that other machines reach.
"""
BY_HAND = "# --- By hand "
TO_SET = {
    "OSMO_SECRET_KEY": "",
    "OSMO_PUBLIC_URL": "https://osmo.example",
    "OSMO_ALLOWED_HOSTS": "osmo.example,localhost,127.0.0.1",
    "OSMO_SECURE": "true",
    "OSMO_PROXY_COUNT": "1",
}
"""The values of the file for a server that other machines reach."""
EXAMPLES = {
    "DATABASE_URL": "postgresql://osmo_app:password@host:5432/osmo",
    "OSMO_OWNER_DATABASE_URL": "postgresql://osmo:password@host:5432/osmo",
    "REDIS_URL": "redis://host:6379/0",
    "OSMO_ADMIN_HOME": "/var/lib/osmo-admin",
    "OSMO_KUBECONFIG_DIR": "/etc/osmo/kubeconfigs",
    "OSMO_TRACES_URL": "http://collector.example:4318/v1/traces",
}


def render_settings(sections: Iterable[SettingsSection]) -> str:
    """The whole page."""
    of_names = (_section_of_page(each, "…") for each in SECTIONS_OF_NAMES)
    return "\n".join([PAGE_HEAD, *map(_section_of_page, sections), *of_names, PAGE_END])


def _section_of_page(section: SettingsSection, begin: str = "") -> str:
    rows = [
        f"| `{begin}{each.name}` | {f'`{each.default}`' if each.default else 'none'} | {each.meaning} |"
        for each in section.variables
    ]
    about = [section.about, ""] if section.about else []
    return "\n".join(
        [f"## {section.title}", "", *about, "| variable | default | meaning |", "|---|---|---|", *rows, ""]
    )


def render_settings_file(sections: Iterable[SettingsSection], old: str) -> str:
    """The whole file, whose end is written by hand and comes from the `old` one."""
    return "\n".join([FILE_HEAD, *map(_section_of_file, sections), old[old.index(BY_HAND) :]])


def _section_of_file(section: SettingsSection) -> str:
    about = _comment(section.about) if section.about else []
    lines = [f"# --- {section.title} ".ljust(120, "-"), *about]
    return "\n".join([*lines, *(line for each in section.variables for line in _lines_of_file(each)), ""])


def _lines_of_file(variable: Variable) -> list[str]:
    name = variable.name
    line = f"{name}={TO_SET[name]}" if name in TO_SET else f"#{name}={EXAMPLES.get(name, variable.default)}"
    return [*_comment(f"{variable.meaning[0].upper()}{variable.meaning[1:]}."), line]


def _comment(markdown: str) -> list[str]:
    text = re.sub(r"\[([\w.-]+)\]\([^)]*\)", r"docs/\1", markdown)
    return textwrap.wrap(
        text, 120, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    found = SECTIONS
    for file in map(Path, sys.argv[1:]):
        file.write_text(render_settings_file(found, file.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(render_settings(found))
