"""The ledger's tables, one subject in each file."""

from pools.models.approval import ApprovalRequest
from pools.models.audit import AuditEntry
from pools.models.backend import Backend, Node
from pools.models.change_tokens import ChangeToken, TokenKind
from pools.models.cluster import KubernetesSettings
from pools.models.cohort import Cohort
from pools.models.gpu_quota import GpuAllocation, GpuQuota, GpuUsage, GpuUsageSample
from pools.models.history import ConfigRevision
from pools.models.installation.backup import LastBackup
from pools.models.installation.idempotency import IdempotencyRecord
from pools.models.installation.secret_key import SecretKeyCheck
from pools.models.ownership import ConfigurationOwner
from pools.models.people.client_login import ClientLogin
from pools.models.people.inbox import InboxNotice, InboxRead
from pools.models.people.membership import AccessToken, RoleAssignment, User
from pools.models.people.notice import Notice, NoticeCondition, NoticeProgress, NoticeTarget
from pools.models.people.saved_view import SavedView
from pools.models.people.sign_on import SignOnIdentity
from pools.models.pool import Pool
from pools.models.usage import FlavorUsage, LeafUsage, LiveWork, Reservation
