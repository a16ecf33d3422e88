"""Devices that are not whole GPUs: requests for them that are refused by their names, because nothing counts them."""

from __future__ import annotations

_PART_KEYS = frozenset(
    {"gpu-fraction", "gpu-fraction-limit", "gpu-fraction-num-devices", "gpu-memory", "gpu-memory-limit"}
)
"""Annotations by which KAI and its relatives give a pod a part of a GPU; some write a prefix before them."""

CLAIM_FIELDS = frozenset({"resourceClaims", "resourceClaimTemplates", "resources"})
"""Fields by which a manifest could ask for devices beside the annotations that are counted."""


def asks_for_uncounted_devices(annotation: str) -> bool:
    """Whether an annotation of this name asks for a part of a GPU or for another vendor's device."""
    prefix, _, key = annotation.rpartition("/")
    return key in _PART_KEYS or key.startswith("mig-") or key == "gpu.shared" or (key == "gpu" and prefix != "")
