"""Addresses of the ledger's API. Those with one first word are together, because Django compares one by one."""

from __future__ import annotations

from django.urls import include, path

from pools.api import audit, events, version
from pools.api.configuration import (
    approvals,
    backends,
    cohorts,
    history,
    owners,
    pool_lists,
    pool_platforms,
    pools,
    revisions,
    subpool_quotas,
    subpools,
)
from pools.api.gpu_quota import gpu_allocations, gpu_quotas
from pools.api.people import auth, client_logins, inbox, notices, password_login, profile, saved_views, tokens, users

auth_urls = [
    path("login", auth.LoginInfo.as_view()),
    path("jwt/access_token", auth.TokenExchange.as_view()),
    path("client_login", client_logins.ClientLoginList.as_view()),
    path("client_login/password", password_login.ClientPasswordLogin.as_view()),
    path("client_login/token", client_logins.ClientLoginToken.as_view()),
    path("access_token", tokens.TokenList.as_view()),
    path("access_token/<str:name>", tokens.TokenDetail.as_view()),
    path("access_token/<str:name>/roles", tokens.TokenRoles.as_view()),
    path("user", users.UserList.as_view()),
    path("user/<str:user>", users.UserDetail.as_view()),
    path("user/<str:user>/roles", users.UserRoles.as_view()),
    path("user/<str:user>/roles/<str:role>", users.UserRole.as_view()),
    path("user/<str:user>/identity", users.UserIdentities.as_view()),
    path("user/<str:user>/identity/<str:provider>", users.UserIdentity.as_view()),
    path("user/<str:user>/access_token", tokens.TokenList.as_view()),
    path("user/<str:user>/access_token/<str:name>", tokens.TokenDetail.as_view()),
    path("user/<str:user>/access_token/<str:name>/roles", tokens.TokenRoles.as_view()),
]
profile_urls = [
    path("settings", profile.ProfileSettings.as_view()),
    path("views", saved_views.SavedViews.as_view()),
    path("views/<str:page>/<str:name>", saved_views.SavedViewDetail.as_view()),
]
configs_urls = [
    path("pool", pools.PoolConfigs.as_view()),
    path("pool/<str:name>", pools.PoolConfig.as_view()),
    path("pool/<str:name>/rename", pools.PoolRename.as_view()),
    path("pool/<str:name>/platform", pool_platforms.PlatformList.as_view()),
    path("pool/<str:name>/platform/<str:platform>", pool_platforms.PlatformDetail.as_view()),
    path("pool/<str:name>/platform/<str:platform>/rename", pool_platforms.PlatformRename.as_view()),
    path("pool/<str:parent>/subpool", subpools.SubpoolList.as_view()),
    path("pool/<str:parent>/subpool/<str:subpool>", subpools.SubpoolDetail.as_view()),
    path("subpool_quotas", subpool_quotas.SubpoolQuotas.as_view()),
    path("backend", backends.BackendList.as_view()),
    path("backend/<str:name>", backends.BackendDetail.as_view()),
    path("gpu_quota", gpu_quotas.GpuQuotaList.as_view()),
    path("gpu_quota/<str:namespace>", gpu_quotas.GpuQuotaDetail.as_view()),
    path("approval", approvals.ApprovalList.as_view()),
    path("approval/<int:approval>", approvals.ApprovalDetail.as_view()),
    path("approval/<int:approval>/approve", approvals.ApprovalApprove.as_view()),
    path("approval/<int:approval>/reject", approvals.ApprovalReject.as_view()),
    path("approval/<int:approval>/withdraw", approvals.ApprovalWithdraw.as_view()),
    path("owner", owners.OwnerList.as_view()),
    path("cohort", cohorts.CohortList.as_view()),
    path("cohort/<str:name>", cohorts.CohortDetail.as_view()),
    path("history", history.RevisionList.as_view()),
    path("history/rollback", history.ConfigurationRollback.as_view()),
    path("history/<str:config_type>/revision/<int:revision>", revisions.RevisionDetail.as_view()),
    path("history/<str:config_type>/revision/<int:revision>/tags", revisions.RevisionTags.as_view()),
    path("diff", history.RevisionDiff.as_view()),
]
gpu_quota_urls = [
    path("<str:namespace>/allocation", gpu_allocations.GpuAllocationList.as_view()),
    path("<str:namespace>/allocation/<str:name>", gpu_allocations.GpuAllocationDetail.as_view()),
    path("<str:namespace>/allocation/<str:name>/commit", gpu_allocations.GpuAllocationCommit.as_view()),
    path("<str:namespace>/room", gpu_quotas.GpuHeadroom.as_view()),
    path("<str:namespace>/history", gpu_quotas.GpuUsageHistory.as_view()),
]
notices_urls = [
    path("inbox", inbox.Inbox.as_view()),
    path("inbox/read", inbox.InboxReadAll.as_view()),
    path("inbox/<int:news>/read", inbox.InboxReadOne.as_view()),
    path("target", notices.NoticeTargetList.as_view()),
    path("target/<int:target>", notices.NoticeTargetDetail.as_view()),
    path("target/<int:target>/test", notices.NoticeTargetTest.as_view()),
    path("target/<int:target>/secret", notices.NoticeTargetSecret.as_view()),
    path("target/<int:target>/replay", notices.NoticeTargetReplay.as_view()),
    path("<str:notice>/replay", notices.NoticeReplay.as_view()),
]
urlpatterns = [
    path("version", version.Version.as_view()),
    path("auth/", include(auth_urls)),
    path("profile/", include(profile_urls)),
    path("audit", audit.AuditTrail.as_view()),
    path("events", events.AuditEventStream.as_view()),
    path("pool", pool_lists.PoolList.as_view()),
    path("configs/", include(configs_urls)),
    path("gpu_quota/", include(gpu_quota_urls)),
    path("quota_tree", cohorts.QuotaTreeView.as_view()),
    path("notices", notices.NoticeList.as_view()),
    path("notices/", include(notices_urls)),
]
