"""Workflow files: text in, a `WorkflowSpec` or every fault with its line out (OSMO contract, 7.3)."""

from .labels import check_labels
from .parser import Parsed, parse
from .rules import PlatformRules, SpecRules

__all__ = ["Parsed", "PlatformRules", "SpecRules", "check_labels", "parse"]
