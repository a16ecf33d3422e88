"""A process under test that begins with the product loaded: `python -m tests.history.begin MODULE ARGUMENTS`. What
`child/sitecustomize.py` does at the start of an interpreter is done here."""

from __future__ import annotations

import importlib
import runpy
import sys

if __name__ == "__main__":
    importlib.import_module("tests.history.child.sitecustomize")
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
