"""Errors of the domain: a code for programs, a message for people, and the numbers of the message.

Errors know nothing of HTTP. The API maps `kind` to a status code, the command line to an exit code (design, A1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, ClassVar, NewType, NotRequired, Self, TypedDict, cast


class ErrorCode(StrEnum):
    """The `error_code` that clients test (design, O1)."""

    USER = "USER"
    USAGE = "USAGE"
    RESOURCE = "RESOURCE"
    NOTFOUND = "NOTFOUND"
    SERVER = "SERVER"
    SCENARIO = "SCENARIO"


class ErrorKind(StrEnum):
    """The kind of an error; each interface renders it in its own way."""

    BAD_INPUT = "bad_input"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    STALE = "stale"
    UNSUPPORTED = "unsupported"
    THROTTLED = "throttled"
    BUSY = "busy"


class ViolationBody(TypedDict):
    """One broken rule; its numbers follow under keys of their own."""

    path: str
    code: Annotated[Fault | str, "A fault, or the name of a rule, such as one of the ledger."]
    message: str
    line: NotRequired[int]


ViolationAnswer = Annotated[ViolationBody, {"additionalProperties": True}]


class ErrorAnswer(TypedDict):
    """A refusal; `details` are all broken rules at once."""

    message: str
    error_code: Annotated[str, ErrorCode]
    workflow_id: str | None
    details: list[ViolationAnswer]


class Fault(StrEnum):
    """The codes of violations: what is wrong with an input, or what in the state forbids a change. Answers have the
    values, and docs/error-codes.md has the meanings."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        code = str.__new__(cls, name)
        code._value_, code.meaning = name, meaning
        return code

    BAD_VALUE = "bad_value", "a value of the wrong type, outside its bounds, or not one of those that are allowed"
    MISSING = "missing", "a value that is needed and not given"
    UNKNOWN_KEY = "unknown_key", "a key that is not known here"
    UNKNOWN_PARAMETER = "unknown_parameter", "a parameter that the address does not have; only a warning"
    REPEATED_PARAMETER = "repeated_parameter", "a parameter that is given twice and read once; only a warning"
    UNKNOWN_NAME = "unknown_name", "a name that nothing here has"
    DUPLICATE_NAME = "duplicate_name", "a name that is given twice"
    DUPLICATE_KEY = "duplicate_key", "a key that is given twice in one map"
    DUPLICATE = "duplicate", "a row that is given twice"
    EMPTY = "empty", "a text, list or file with nothing in it"
    TOO_LARGE = "too_large", "a number, file or answer above its bound"
    TOO_LONG = "too_long", "a text or a time above its bound"
    TOO_MANY = "too_many", "a list with more entries than are allowed"
    TOO_FINE = "too_fine", "a quantity with more decimals than are kept"
    TOO_DEEP = "too_deep", "values that are nested too deep"
    TOO_MANY_VALUES = "too_many_values", "a file with too many values when its aliases are written out"
    NEGATIVE = "negative", "a number below 0"
    BAD_TYPE = "bad_type", "a value that is not a text"
    BAD_NAME = "bad_name", "a name that its rule does not allow"
    NAME_TOO_LONG = "name_too_long", "a name with too many characters"
    NAME_TAKEN = "name_taken", "a name that something else has"
    RESERVED_NAME = "reserved_name", "a name that belongs to the system"
    SEPARATOR_IN_NAME = "separator_in_name", "a name with two hyphens in a row, which separate a pool from its subpool"
    BAD_QUERY = "bad_query", "a parameter of the address with a value that is not allowed"
    WINDOW_TOO_LONG = "window_too_long", "a time between `since` and `until` that is too long for one answer"
    MORE = "more", "more faults than are listed"
    NOT_READ = "not_read", "workflows of the request that were not read"
    BAD_JSON = "bad_json", "a body that is not valid JSON"
    BAD_ENCODING = "bad_encoding", "a body or a header with an encoding that is not accepted"
    BAD_KEY = "bad_key", "an Idempotency-Key, or a key of a map, that is not allowed"
    KEY_REUSED = "key_reused", "an Idempotency-Key that was sent with another request"
    SECRET_SHOWN_ONCE = "secret_shown_once", "an Idempotency-Key for an answer with a secret, which is never stored"
    ANSWER_TOO_LARGE = "answer_too_large", "an answer that is too large to be stored or read"
    TOO_MANY_PARAMETERS = "too_many_parameters", "a form or address with too many parameters"
    BODY_TOO_LARGE = "body_too_large", "a body above the limit of the server"
    BODY_TOO_SLOW = "body_too_slow", "a body that did not arrive in time"
    BODY_INCOMPLETE = "body_incomplete", "a body that breaks off"
    BODIES_FILL_MEMORY = "bodies_fill_memory", "bodies of other requests that fill the memory; try again"
    TOO_MANY_REQUESTS = "too_many_requests", "requests that wait; try again"
    NOT_SERVED = "not_served", "an address that this server does not serve"
    NOT_OFFERED = "not_offered", "an endpoint of OSMO that is not offered here"
    DEFECT = "defect", "an error of the service that the request has not caused"
    DATABASE_RULE = "database_rule", "a rule of the ledger; most rules have codes of their own"
    STALE = "stale", "a version that is not the current one: the object has changed"
    OWNED_BY_GIT = "owned_by_git", "an object that only its Git source changes"
    APPROVAL_NEEDED = "approval_needed", "a change that needs the approval of a second person"
    APPROVAL_BY_SECOND_PERSON = "approval_by_second_person", "a decision about one's own request"
    APPROVAL_EXPIRED = "approval_expired", "a request for approval whose time is over"
    APPROVAL_IS_FINAL = "approval_is_final", "a request for approval that is decided"
    APPROVAL_SUPERSEDED = "approval_superseded", "a request for approval of a change that does no longer fit the state"
    APPROVAL_UNREADABLE = "approval_unreadable", "a request for approval that this version cannot read"
    APPROVAL_WAITS_ONCE = "approval_waits_once", "a change for which a request waits already"
    NOT_REQUESTER = "not_requester", "a withdrawal of the request of another person"
    REQUESTER_LOST_ROLE = "requester_lost_role", "a request for approval of a person who may no longer make the change"
    TOO_MANY_APPROVALS = "too_many_approvals", "requests for approval beyond the number that may wait"
    ARCHIVED = "archived", "an object that is archived"
    WRONG_STATE = "wrong_state", "an object in a state that does not allow the change"
    UNKNOWN_STATE = "unknown_state", "a state that the object does not have"
    IN_USE = "in_use", "an object that others use"
    LIVE_WORK = "live_work", "a pool with active workflows"
    HAS_SUBPOOLS = "has_slices", "a pool with subpools"
    HAS_CHILDREN = "has_children", "a cohort with pools or cohorts below it"
    CYCLE = "cycle", "parents or dependencies that form a cycle"
    UNKNOWN_PARENT = "unknown_parent", "a parent that does not exist"
    UNKNOWN_BACKEND = "unknown_backend", "a cluster (backend) that does not exist"
    UNKNOWN_POOL = "unknown_pool", "a pool that does not exist or that the caller has no role on"
    UNKNOWN_SUBPOOL = "unknown_subpool", "a subpool that the pool does not have"
    FLAVOR_NEEDED = "flavor_needed", "a quota without its flavor, of a pool with several"
    SUM_DIFFERS = "sum_differs", "a number that is not the sum of its parts"
    UNKNOWN_FLAVOR = "unknown_flavor", "a GPU flavor that the pool or the cluster does not have"
    UNKNOWN_PLATFORM = "unknown_platform", "a platform that the pool does not have"
    UNKNOWN_ROLE = "unknown_role", "a role that does not exist"
    SUBPOOL_ENDPOINT = "subpool_endpoint", "a subpool, which has addresses of its own"
    NOT_A_SUBPOOL = "not_a_subpool", "a name that is not one of a subpool"
    BAD_QUOTA = "bad_quota", "a quota that is neither a number of GPUs nor a percentage"
    NEGATIVE_QUOTA = "negative_quota", "a quota below 0 that is not -1 for no limit"
    QUOTA_TOO_LARGE = "quota_too_large", "a quota above the largest number of GPUs"
    QUOTA_EXCEEDS_PARENT = "quota_exceeds_parent", "quotas of subpools that are more than their pool guarantees"
    NO_GUARANTEE = "no_guarantee", "a pool without a finite guarantee, of which no part can be given"
    GUARANTEE_BELOW_SUBPOOLS = "guarantee_below_slices", "a guarantee below the quotas of the subpools"
    MAXIMUM_BELOW_GUARANTEE = "maximum_below_guarantee", "a maximum below the guarantee"
    DEFAULT_ABOVE_MAXIMUM = "default_above_maximum", "a default time above its maximum"
    BAD_WEIGHT = "bad_weight", "a weight that is too small, or with too many decimals"
    LIMIT_WITHOUT_PARENT = "limit_without_parent", "a limit of borrowing or lending without a parent"
    LENDING_ABOVE_NOMINAL = "lending_above_nominal", "a lending limit above the nominal quota"
    LENDING_ABOVE_QUOTA = "lending_above_quota", "a lending limit above the quota"
    CHILDREN_ABOVE_PARENT = "children_above_parent", "quotas below a queue that are more than its own"
    NODE_OVERFULL = "node_overfull", "tasks on a node that need more than it has"
    DEBT = "debt", "usage beyond the limits"
    NO_EFFECT = "no_effect", "a value that nothing reads"
    BAD_END = "bad_end", "an end of a quota that is not in the future or too far away"
    BAD_DEADLINE = "bad_deadline", "a deadline of a drain that is not in the future or has no drain"
    TEMPORARY_CUT = "temporary_cut", "a quota for a time that is below the lasting one"
    BAD_FILE = "bad_file", "a file that cannot be read"
    NO_FILES = "no_files", "a folder without files of the configuration"
    UNREADABLE = "unreadable", "a kubeconfig that cannot be read"
    NO_FOLDER = "no_folder", "a kubeconfig file on a server without a folder for such files"
    ADDRESS_REFUSED = "address_refused", "an address that clusters may not have"
    REACHES_INTO_SERVER = "reaches_into_house", "a kubeconfig that would read a file or run a command of the server"
    SECRET_IN_FILE = "secret_in_file", "a secret in a file of the configuration"
    ABOVE_MAXIMUM = "above_maximum", "a gang that is larger than its pool may ever hold"
    ABOVE_QUOTA = "above_quota", "a gang that is larger than the quota"
    ABOVE_TREE = "above_tree", "a gang that is larger than its tree of cohorts"
    CLUSTER_OBSERVED = "cluster_observed", "a write to a cluster that is only observed"
    POOL_CLOSED = "pool_closed", "a pool that takes no work now"
    NO_PLATFORM = "no_platform", "work without a platform in a pool without a default"
    TOO_MANY_IN_REQUEST = "too_many_in_request", "more workflows in one request than are allowed"
    TOO_MANY_LIVE_WORKFLOWS = "too_many_live_workflows", "more active workflows than the installation takes"
    TOO_MANY_SUBMISSIONS = "too_many_submissions", "more submissions in a short time than are allowed"
    TWO_FILES = "two_files", "a file and an old workflow in one request"
    NOT_FAILED = "not_failed", "a retry of a workflow that has not failed"
    NOT_RUNNING = "not_running", "a group that does not run"
    ENDED = "ended", "a workflow that has ended"
    BAD_TAG = "bad_tag", "a tag that its rule does not allow"
    BAD_LABEL = "bad_label", "a label that Kubernetes does not allow"
    BAD_VERSION = "bad_version", "a version of the workflow file that is not known"
    BAD_DURATION = "bad_duration", "a text that is not a time"
    BAD_SIZE = "bad_size", "a text that is not an amount with a unit"
    BAD_NUMBER = "bad_number", "a number outside its bounds"
    WRONG_TYPE = "wrong_type", "a value of the wrong type in a workflow file"
    BAD_IMAGE = "bad_image", "a text that is not a container image"
    BAD_MOUNT = "bad_mount", "a mount that is not allowed"
    BAD_PATH = "bad_path", "a path where no file can be put"
    DUPLICATE_PATH = "duplicate_path", "a path that two files have"
    BAD_SOURCE = "bad_source", "an input or output that names none or several places"
    BAD_REGEX = "bad_regex", "a text that is not a regular expression, or too long for one"
    BAD_EXIT_CODES = "bad_exit_codes", "a text that is not a list of exit codes"
    BAD_ASSIGNMENT = "bad_assignment", "an assignment that sets nothing"
    NOT_ALLOWED = "not_allowed", "something that the platform does not allow"
    TASKS_OR_GROUPS = "tasks_or_groups", "a workflow with both tasks and groups, or with neither"
    TOO_MANY_TASKS = "too_many_tasks", "more tasks than are allowed"
    LEADS = "leads", "a group that has not exactly one lead task"
    OWN_GROUP = "own_group", "a task that reads from a task of its own group"
    UNKNOWN_TASK = "unknown_task", "a task that the file does not have"
    UNKNOWN_RESOURCE = "unknown_resource", "a resource that the file does not define"
    UNKNOWN_TOPOLOGY = "unknown_topology", "a topology key that the pool does not have"
    UNDEFINED_VARIABLE = "undefined_variable", "a variable without a value"
    TEMPLATE_SYNTAX = "template_syntax", "a template that cannot be read"
    TEMPLATE_FAILED = "template_failed", "a template with an expression that fails"
    TEMPLATE_FORBIDDEN = "template_forbidden", "a template with a forbidden operation"
    TEMPLATE_TOO_LARGE = "template_too_large", "a template that makes too much text"
    TEMPLATE_TOO_DEEP = "template_too_deep", "a template that is nested too deep"
    TEMPLATE_TOO_SLOW = "template_too_slow", "a template that does not finish in time"
    TEMPLATE_BUDGET_SPENT = "template_budget_spent", "templates of one request that do not finish in time together"
    YAML_SYNTAX = "yaml_syntax", "a file that is not valid YAML"
    BAD_CHARACTER = "bad_character", "a character that a file or container cannot hold"
    BAD_MERGE = "bad_merge", "`<<` before something that is not a map"
    UNKNOWN_TAG = "unknown_tag", "a tag of YAML that is not known"
    UNKNOWN_ANCHOR = "unknown_anchor", "an alias whose anchor is not complete before it"
    SEVERAL_DOCUMENTS = "several_documents", "a file with more than one document"
    BOTH_MINIMUMS = "both_minimums", "a PodGroup with both minimums"
    MIN_MEMBER_NOT_POSITIVE = "min_member_not_positive", "a `minMember` below 1"
    MIN_SUB_GROUP_NOT_POSITIVE = "min_sub_group_not_positive", "a `minSubGroup` below 1"
    MIN_SUB_GROUP_ABOVE_CHILDREN = "min_sub_group_above_children", "a `minSubGroup` above the number of children"
    INNER_WITH_MIN_MEMBER = "inner_with_min_member", "a `minMember` of a group that has sub-groups"
    LEAF_WITH_MIN_SUB_GROUP = "leaf_with_min_sub_group", "a `minSubGroup` of a group without sub-groups"
    LEAF_WITHOUT_MIN_MEMBER = "leaf_without_min_member", "a group without sub-groups and without `minMember`"
    PODS_BELOW_MINIMUM = "pods_below_minimum", "a number of pods below the minimum of the gang"
    FOREIGN_WORK = "foreign_work", "work on a queue of ours that was not submitted here"
    FOREIGN_CHANGE = "foreign_change", "a change of a field of ours by somebody else"
    PERCENT_UNDER_CAP = "percent_under_cap", "a percentage of a GPU where a cap on TFLOPS holds"
    UNCOUNTED_DEVICES = "uncounted_devices", "a request for a part of a GPU, or for devices that are not counted"
    TWO_WAYS = "two_ways", "two annotations that say the same amount"
    LIMIT_BELOW_REQUEST = "limit_below_request", "a limit below the request"
    KEPT_ELSEWHERE = "kept_elsewhere", "a GPU quota that its owner keeps elsewhere"
    KEPT_BY_POD = "kept_by_pod", "an allocation that its pod keeps"
    KEPT_BY_WORKFLOW = "kept_by_workflow", "an allocation that its workflow keeps"
    OTHER_AMOUNTS = "other_amounts", "an allocation that exists with other amounts"
    RELEASED = "released", "an allocation that was released"
    NO_HEADER = "no_header", "a trace without a header"
    BAD_USERNAME = "bad_username", "a username that its rule does not allow"
    RESERVED_USERNAME = "reserved_username", "the username of the system"
    LOOK_ALIKE_USERNAME = "look_alike_username", "a username that looks like another one"
    USERNAME_DIFFERS_IN_CAPITALS = "username_differs_in_capitals", "a username that another one has in other capitals"
    WEAK_PASSWORD = "weak_password", "a password that is too easy to guess"
    LAST_ADMIN = "last_admin", "the last account that can run OSMO Admin"
    ADDRESS_OF_PROVIDER = "address_of_provider", "an address that the provider of sign-on says"
    NOT_BY_PASSWORD = "not_by_password", "a login by password where sign-on is needed"
    ACCOUNT_DISABLED = "account_disabled", "an account that is disabled"
    TOO_MANY_CLIENT_LOGINS = "too_many_client_logins", "logins of clients beyond the number that may wait"
    BAD_TOKEN_NAME = "bad_token_name", "a name of a token that its rule does not allow"
    EXPIRED = "expired", "a time or token that is over"
    OUTLIVES_PARENT = "outlives_parent", "a token that would live longer than the one that makes it"
    ROLE_NOT_HELD = "role_not_held", "a role that the caller cannot give, not having it"
    TOO_MANY_TOKENS = "too_many_tokens", "tokens beyond the number of a user"
    BAD_ADDRESS = "bad_address", "an address to which no notice can be sent"
    FOLLOWS_PROFILE = "follows_profile", "an address that follows the profile of its user"
    NOT_CONFIGURED = "not_configured", "a channel that the server is not set up for"
    TOO_MANY_NOTICES = "too_many_notices", "notices to a destination that wait already"
    TOO_MANY_TARGETS = "too_many_targets", "destinations of notices beyond the number that is allowed"
    ACCOUNT_NOT_LINKED = "account_not_linked", "an account that is not linked with the one at the provider"
    LINKED_ALREADY = "linked_already", "an account that is linked with another one at the provider"
    LINKED_ELSEWHERE = "linked_elsewhere", "an account at the provider that belongs to another user"
    OTHER_USER = "other_user", "another user who has logged in meanwhile"
    NOT_ADMITTED = "not_admitted", "an account at the provider that no group admits"
    PROVIDER_REFUSED = "provider_refused", "a sign-on that the provider refused"
    GONE_FROM_DIRECTORY = "gone_from_directory", "an account that the directory does not have any more"
    AMBIGUOUS_NAME = "ambiguous_name", "a username that several entries of the directory have"
    UNUSABLE_ENTRY = "unusable_entry", "an entry of the directory that cannot be used"
    UNUSABLE_CLAIM = "unusable_claim", "a claim of the provider that cannot be used"
    BAD_ENDPOINT = "bad_endpoint", "an address of the provider that is missing or not safe"
    NO_USERINFO = "no_userinfo", "a provider that says nothing about the person"
    NO_LOGOUT_TOKEN = "no_logout_token", "a message about a logout without a logout token"
    BAD_ALGORITHM = "bad_algorithm", "a token with a signature of a kind that is not safe"
    BAD_SIGNATURE = "bad_signature", "a token whose signature is wrong"
    BAD_TOKEN = "bad_token", "a token that is not valid"
    FROM_THE_FUTURE = "from_the_future", "a token that is not valid yet"
    WRONG_AUDIENCE = "wrong_audience", "a token for another client"
    WRONG_ISSUER = "wrong_issuer", "a token or answer of another provider"
    WRONG_NONCE = "wrong_nonce", "a token of another sign-on"
    WRONG_SUBJECT = "wrong_subject", "an answer about another person"
    WEAK_LOGIN = "weak_login", "a login at the provider in a way that is not enough here"
    TOO_OLD = "too_old", "a login at the provider that is too long ago"
    UNREADABLE_TEXT = "unreadable_text", "a text of the provider with a character that cannot be stored"


MAX_DETAILS = 1000
"""The most broken rules that an error names: a hostile request has as many as fit into it."""

RuleName = NewType("RuleName", str)
"""A code that names a rule of another list: a constraint of the database, a limit of a GPU quota, a reason why work
waits (in scenarios), or the kind of the error where the kind says all."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: its place (`path`, and `line` from 1 in a file), its `code`, and a message for people."""

    path: str
    code: Fault | RuleName
    message: str
    line: int | None = None
    severity: str = "error"
    numbers: tuple[tuple[str, Any], ...] = ()

    def as_dict(self) -> ViolationBody:
        """One entry of `details`."""
        body: ViolationBody = {"path": self.path, "code": str(self.code), "message": self.message}
        if self.line is not None:
            body["line"] = self.line
        return cast("ViolationBody", {**body, **dict(self.numbers)})


def joined_messages(violations: Iterable[Violation]) -> str:
    """The messages of these broken rules as one text; one that several of them have stands there once."""
    return " ".join(dict.fromkeys(violation.message for violation in violations))


def common_part(message: str, faults: Sequence[str]) -> str | None:
    """What a message says of several faults together, without the faults; empty if it lists nothing but them, None if
    it does not list them."""
    together = " ".join(dict.fromkeys(faults))
    if len(faults) < 2 or not together.strip() or together not in message:
        return None
    before, _, after = message.partition(together)
    return f"{before}{after.lstrip()}".strip()


class DomainError(Exception):
    """A refusal. `message` is the text for people; `details` are all broken rules at once."""

    kind: ClassVar[ErrorKind] = ErrorKind.BAD_INPUT
    error_code: ErrorCode = ErrorCode.USER

    def __init__(
        self,
        message: str,
        details: Iterable[Violation] = (),
        *,
        error_code: ErrorCode | None = None,
        workflow_id: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(islice(details, MAX_DETAILS))
        self.workflow_id = workflow_id
        self.retry_after = retry_after
        if error_code is not None:
            self.error_code = error_code

    @property
    def common(self) -> str:
        """What the message says of several broken rules together; empty if it says nothing more than they do."""
        return common_part(self.message, [each.message for each in self.details]) or ""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All broken rules. If none is given, the error itself is the only one, with its kind as the code."""
        return self.details or (Violation("", RuleName(self.kind), self.message),)

    def as_dict(self) -> ErrorAnswer:
        """The JSON of the error."""
        return {
            "message": self.message,
            "error_code": str(self.error_code),
            "workflow_id": self.workflow_id,
            "details": [violation.as_dict() for violation in self.violations],
        }

    @classmethod
    def of(cls, violations: Iterable[Violation], **more: Any) -> DomainError:
        """An error whose message is made of the messages of its violations."""
        found = tuple(islice(violations, MAX_DETAILS))
        return cls(joined_messages(found), found, **more)


class BadInput(DomainError):
    """The request breaks a rule of form, name or quota."""


class Unauthenticated(DomainError):
    """The request has no valid credential."""

    kind = ErrorKind.UNAUTHENTICATED


class Forbidden(DomainError):
    """The actor may see the object but lacks the role for this action."""

    kind = ErrorKind.FORBIDDEN


class NotFound(DomainError):
    """The object does not exist, or the actor may not see it; both give the same answer on purpose."""

    kind = ErrorKind.NOT_FOUND
    error_code = ErrorCode.NOTFOUND


class Conflict(DomainError):
    """The state of the object, or a concurrent change, forbids the action now."""

    kind = ErrorKind.CONFLICT


class Stale(DomainError):
    """The object changed since the caller read it."""

    kind = ErrorKind.STALE


class UnsupportedMedia(DomainError):
    """The request has a media type that is not supported."""

    kind = ErrorKind.UNSUPPORTED


class Throttled(DomainError):
    """There were too many attempts; the caller has to wait."""

    kind = ErrorKind.THROTTLED


class Busy(DomainError):
    """A lock or a dependency did not answer in time; nothing was changed, and a retry may succeed."""

    kind = ErrorKind.BUSY
    error_code = ErrorCode.SERVER
