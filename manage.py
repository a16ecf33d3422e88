#!/usr/bin/env python3
"""Django's own command line; `osmo-admin manage …` is the same from an installed package."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_admin.settings")
    execute_from_command_line(sys.argv)
