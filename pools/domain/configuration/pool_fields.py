"""The keys of a pool's configuration, each said once (design, O5.1, O8).

From this table come the reader and the writer of the configuration (:mod:`pools.domain.configuration.pool_config`), the
form and the labels of its previews, the schema of files and of the API document, and the columns that an entry of the
audit trail can set back. A key that is only carried is one entry here (docs/developing/add-a-field.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pools.domain.configuration.platforms import FLAG_KEYS, GPU_CAPACITY_KEYS, LIST_KEYS, parse_variables
from pools.domain.configuration.platforms import KEYS as PLATFORM_KEYS
from pools.domain.configuration.pool_flavors import FLAVORS_SCHEMA, SWITCHES
from pools.domain.errors import Fault
from pools.domain.exit_codes import EXIT_ACTIONS, EXIT_CODES_RULE, parse_exit_codes
from pools.domain.gpu_quota.pool_settings import GPU_NAMESPACE, parse_gpu_namespace
from pools.domain.numbers import BORROWING_LIMIT, LENDING_LIMIT, QUOTA, WEIGHT
from pools.domain.quota.pool_balance import MAX_GPUS
from pools.domain.structured_input.config_fields import TEXT, ConfigField, Schema, object_schema, properties_of
from pools.domain.structured_input.fields import FieldReader, shorten_value
from pools.domain.values.amounts import NO_LIMIT
from pools.domain.values.durations import parse_duration

DOWNLOAD_TYPES = ("download",)
APPROVAL_ABOVE = "approval_above"
HOLD_AFTER = "hold_after"
MAX_HOLD_AFTER = 31 * 86_400
NAME_LIST_KEYS = ("common_resource_validations", "common_pod_template", "common_group_templates")

TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_GPUS}
_GPUS: Final[Schema] = {"type": "integer", "minimum": -1, "maximum": MAX_GPUS, "description": "GPUs; -1 is unlimited."}
_LIMIT: Final[Schema] = {**COUNT, "type": ["integer", "null"]}
_TIME: Final[Schema] = {"type": ["string", "integer"]}
_SIZE: Final[Schema] = {"type": ["string", "integer"]}
_QUANTITY: Final[Schema] = {
    "type": ["string", "number"],
    "description": "A Kubernetes quantity, such as 1500m or 40Gi.",
}
QUOTA_SECTION, LENDING, POLICY, ABOUT = SECTIONS = ("Quota", "Lending", "Policy", "About")
"""The parts of the form, in its order."""


def whole_number_up_to(maximum: int) -> Callable[[FieldReader, str], int | None]:
    """The reader of an optional whole number; None if it is not given."""

    def read(pool: FieldReader, key: str) -> int | None:
        return pool.whole_number(key, 0, minimum=0, maximum=maximum) if pool.is_given(key) else None

    return read


def _read_download_type(pool: FieldReader, key: str) -> str | None:
    download = pool.read_text(key) or None
    if download is not None and download not in DOWNLOAD_TYPES:
        pool.add_fault(key, Fault.BAD_VALUE, f"must be null or one of {', '.join(DOWNLOAD_TYPES)}.")
    return download


def _read_timeout(pool: FieldReader, key: str) -> str:
    def parse(text: str) -> str | None:
        return text if text == "" or parse_duration(text) is not None else None

    return pool.parsed_text(key, parse, "", "a time such as 30s, 15m, 12h or 7d")


def _read_exit_actions(pool: FieldReader, key: str) -> dict[str, str]:
    actions = pool.nested(key)
    found: dict[str, str] = {}
    if actions is None:
        return found
    for action in actions.body:
        if action.upper() not in EXIT_ACTIONS:
            actions.add_fault(
                shorten_value(action), Fault.UNKNOWN_KEY, f"is not an exit action; known are {', '.join(EXIT_ACTIONS)}."
            )
        elif text := actions.parsed_text(
            action, lambda codes: codes if parse_exit_codes(codes) is not None else None, "", EXIT_CODES_RULE
        ):
            found[action.upper()] = text
    return found


def _read_topology_keys(pool: FieldReader, key: str) -> list[dict[str, str]]:
    found, seen = [], set()
    for row in pool.nested_list(key):
        row.reject_unknown_keys(("key", "label"))
        entry = {name: row.read_text(name) for name in ("key", "label")}
        for name, value in entry.items():
            if not value:
                row.add_fault(name, Fault.MISSING, "is missing.")
        if entry["key"] in seen:
            row.add_fault("key", Fault.DUPLICATE_NAME, "is given twice; each key has its own name.")
        seen.add(entry["key"])
        found.append(entry)
    return found


PLATFORM_SCHEMA: Final = object_schema(
    {
        "description": TEXT,
        **{key: {"type": "boolean"} for key in FLAG_KEYS},
        **dict.fromkeys(LIST_KEYS, TEXTS),
        "default_variables": {"type": "object"},
        **dict.fromkeys(GPU_CAPACITY_KEYS, _QUANTITY),
    }
)
_TIMEOUT_HELP: Final = {
    "default_exec_timeout": "Longest run of work that names none, such as 12h.",
    "default_queue_timeout": "Longest wait of work that names none, such as 7d.",
    "max_exec_timeout": "Longest run that work may name.",
    "max_queue_timeout": "Longest wait that work may name.",
}
POOL_FIELDS: Final = (
    ConfigField(
        "description", TEXT, "Description", "What the pool is for; everybody who sees the pool can read it.",
        default="", is_column=True, input="about", looks="long text", section=ABOUT,
    ),
    ConfigField("backend", TEXT, "Cluster (backend)", "The backend on which the work of the pool runs."),
    ConfigField(
        "download_type", {"enum": [*DOWNLOAD_TYPES, None]}, "Download type", "Kept for OSMO; it has no effect.",
        read=_read_download_type, is_unused=True,
    ),
    ConfigField(
        "enable_maintenance", {"type": "boolean"}, "In maintenance",
        "Only osmo-admin may submit. Running work continues.",
        default=False, is_column=True, input="maintenance", looks="boolean", section=POLICY,
    ),
    ConfigField(
        "default_platform", {"type": ["string", "null"]}, "Default platform", "The platform of work that names none.",
    ),
    *(
        ConfigField(key, _TIME, key.replace("_", " ").capitalize(), help_text, default="", read=_read_timeout)
        for key, help_text in _TIMEOUT_HELP.items()
    ),
    ConfigField(
        "default_exit_actions", object_schema(dict.fromkeys(EXIT_ACTIONS, _SIZE)), "Default exit actions",
        "What follows from an exit code: exit codes by action.", default={}, read=_read_exit_actions,
    ),
    ConfigField(
        "resources.gpu.guarantee", _GPUS, f"{QUOTA.label} in GPUs",
        "A whole number of GPUs. Subpools get their quotas from it (“guarantee” in the API).",
        is_column=True, input="guarantee", section=QUOTA_SECTION, unit="GPUs", empty="no limit",
        empty_value=NO_LIMIT,
    ),
    ConfigField(
        "resources.gpu.maximum", _GPUS, "Maximum in GPUs",
        "A whole number of GPUs. LOW work may use GPUs over the quota up to this number.",
        is_column=True, input="maximum", section=QUOTA_SECTION, unit="GPUs", empty="no limit",
        empty_value=NO_LIMIT,
    ),
    ConfigField(
        "resources.gpu.weight", COUNT, WEIGHT.label, "Share of unused GPUs, relative to other pools.",
        is_column=True, input="weight", section=QUOTA_SECTION,
    ),
    ConfigField(
        "resources.flavors", FLAVORS_SCHEMA, "Quotas by flavor",
        "The quota of each flavor with its limits, in the order in which the pool prefers them.",
        default=[], is_column=True, section=QUOTA_SECTION,
    ),
    ConfigField(
        "when_can_borrow", {"enum": [*SWITCHES["when_can_borrow"]]}, "Where work can borrow",
        "Of a pool with flavors: where LOW work would have to borrow GPUs of a flavor, borrow them, or try the next "
        "flavor first.",
        default=SWITCHES["when_can_borrow"][0],
    ),
    ConfigField(
        "when_can_preempt", {"enum": [*SWITCHES["when_can_preempt"]]}, "Where work can preempt",
        "Of a pool with flavors: where work would have to preempt other work of a flavor, try the next flavor first, "
        "or preempt.",
        default=SWITCHES["when_can_preempt"][0],
    ),
    ConfigField(
        "cohort", {"type": ["string", "null"]}, "Cohort",
        "The group of pools that lend each other unused GPUs. A new name creates a cohort.",
        input="cohort", looks="text", section=LENDING, empty="none",
    ),
    ConfigField(
        "borrowing_limit", _LIMIT, f"{BORROWING_LIMIT.label} in GPUs",
        "In its cohort: the GPUs that LOW work may use beyond the quota.",
        is_column=True, input="borrowing_limit", section=LENDING, unit="GPUs", empty="no limit",
    ),
    ConfigField(
        "lending_limit", _LIMIT, f"{LENDING_LIMIT.label} in GPUs",
        "In its cohort: how much of the idle quota others may use.",
        is_column=True, input="lending_limit", section=LENDING, unit="GPUs", empty="no limit",
    ),
    ConfigField(
        "topology_keys", {"type": "array", "items": object_schema({"key": TEXT, "label": TEXT}, ("key", "label"))},
        "Topology keys", "Levels of the network by name, each with the label of the nodes that says it.",
        default=[], read=_read_topology_keys,
    ),
    ConfigField(
        GPU_NAMESPACE, TEXT, "Namespace of the GPU quota",
        "The namespace whose GPU quota counts the work of the pool; empty for none.",
        default="", read=lambda pool, _key: parse_gpu_namespace(pool),
    ),
    ConfigField(
        APPROVAL_ABOVE, _LIMIT, "Approval above",
        "A change of a quota here by more GPUs needs the approval of a second person.",
        read=whole_number_up_to(MAX_GPUS), input=APPROVAL_ABOVE, section=POLICY, unit="GPUs", empty="no approval",
    ),
    ConfigField(
        HOLD_AFTER, _LIMIT, "Hold later work after",
        "On a Kubernetes cluster: after this wait the first work of a queue keeps its place, and later work of the "
        "pool that would compete with it is not sent to the cluster until it has started.",
        read=whole_number_up_to(MAX_HOLD_AFTER), input=HOLD_AFTER, section=POLICY, unit="seconds", empty="never",
    ),
    ConfigField(
        "platforms", {"type": ["object", "null"], "additionalProperties": PLATFORM_SCHEMA}, "Platforms",
        "The kinds of nodes by name, with the settings of work there.",
    ),
    ConfigField(
        "common_default_variables", {"type": "object"}, "Default variables",
        "Values of variables that a workflow file does not set.", default={}, read=parse_variables,
    ),
    *(
        ConfigField(
            key, TEXTS, key.replace("_", " ").capitalize(), "Kept for OSMO; it has no effect.",
            default=[], read=FieldReader.read_texts, is_unused=True,
        )
        for key in NAME_LIST_KEYS
    ),
)  # fmt: skip
EDITABLE_KEYS: Final = tuple(dict.fromkeys(each.key.partition(".")[0] for each in POOL_FIELDS))
"""The keys of a configuration, in the order of its JSON; the switches are those of pools with flavors."""
COLUMNS: Final = tuple(each.column for each in POOL_FIELDS if each.is_column)
"""The columns of a pool that hold a value of its configuration as it is."""
FIELDS_OF_FORM: Final = {each.input: each for each in POOL_FIELDS if each.input}
"""The fields that the form of a pool has, by the names of its inputs."""


PLATFORM_ANSWER: Final = PLATFORM_SCHEMA | {"required": list(PLATFORM_KEYS)}
"""The schema of an answer about a platform."""


def pool_answer() -> dict[str, Any]:
    """The schema of an answer with a whole configuration; a verbose one has more keys in each platform."""
    platforms = {"type": "object", "additionalProperties": PLATFORM_ANSWER | {"additionalProperties": True}}
    required = tuple(key for key in EDITABLE_KEYS if key not in SWITCHES)
    return object_schema(pool_properties() | {"platforms": platforms}, required)


def pool_properties() -> dict[str, Any]:
    """The JSON schemas of the keys of a configuration."""
    own = properties_of(each for each in POOL_FIELDS if "." not in each.key)
    gpu = {each.column: each.schema for each in POOL_FIELDS if each.key.startswith("resources.gpu.")}
    flavors = properties_of(each for each in POOL_FIELDS if each.key == "resources.flavors")
    own["resources"] = object_schema({"gpu": object_schema(gpu), "flavors": flavors["resources.flavors"]})
    return {key: own[key] for key in EDITABLE_KEYS}


IN_MAINTENANCE: Mapping[str, Any] = MappingProxyType({"enable_maintenance": True})
"""The part of a pool's configuration by which only osmo-admin may submit to it."""
