"""The pages of pools, quotas, users and clusters; importing this package registers them."""

from pools.admin import audit
from pools.admin.configuration import approvals, backends, cohorts, gpu_quota, pools
from pools.admin.people import inbox, notices, saved_views, tokens, users
