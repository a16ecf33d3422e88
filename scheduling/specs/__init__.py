"""Workflow files and PodGroup manifests: text in, a `WorkflowSpec` or every fault with its line out.

Source: design, O7.3, A6.
"""

from scheduling.specs.labels import check_labels
from scheduling.specs.parser import ParsedSpec, parse
from scheduling.specs.rendering.render_budget import RenderBudget
from scheduling.specs.rules import PlatformRules, SpecRules

__all__ = ["ParsedSpec", "PlatformRules", "RenderBudget", "SpecRules", "check_labels", "parse"]
