"""Addresses of the ledger's API."""

from __future__ import annotations

from django.urls import path

from pools.api import (
    audit,
    auth,
    backends,
    events,
    history,
    pool_lists,
    pool_platforms,
    pools,
    profile,
    revisions,
    subpools,
    tokens,
    users,
    version,
)

urlpatterns = [
    path("version", version.Version.as_view()),
    path("auth/login", auth.LoginInfo.as_view()),
    path("auth/jwt/access_token", auth.TokenExchange.as_view()),
    path("auth/access_token", tokens.TokenList.as_view()),
    path("auth/access_token/<str:name>", tokens.TokenDetail.as_view()),
    path("auth/access_token/<str:name>/roles", tokens.TokenRoles.as_view()),
    path("auth/user", users.UserList.as_view()),
    path("auth/user/<str:user>", users.UserDetail.as_view()),
    path("auth/user/<str:user>/roles", users.UserRoles.as_view()),
    path("auth/user/<str:user>/roles/<str:role>", users.UserRole.as_view()),
    path("auth/user/<str:user>/access_token", tokens.TokenList.as_view()),
    path("auth/user/<str:user>/access_token/<str:name>", tokens.TokenDetail.as_view()),
    path("auth/user/<str:user>/access_token/<str:name>/roles", tokens.TokenRoles.as_view()),
    path("profile/settings", profile.ProfileSettings.as_view()),
    path("audit", audit.Audit.as_view()),
    path("events", events.Events.as_view()),
    path("pool", pool_lists.PoolList.as_view()),
    path("configs/pool", pools.PoolConfigs.as_view()),
    path("configs/pool/<str:name>", pools.PoolConfig.as_view()),
    path("configs/pool/<str:name>/rename", pools.PoolRename.as_view()),
    path("configs/pool/<str:name>/platform", pool_platforms.PlatformList.as_view()),
    path("configs/pool/<str:name>/platform/<str:platform>", pool_platforms.PlatformDetail.as_view()),
    path("configs/pool/<str:name>/platform/<str:platform>/rename", pool_platforms.PlatformRename.as_view()),
    path("configs/pool/<str:parent>/subpool", subpools.SubpoolList.as_view()),
    path("configs/pool/<str:parent>/subpool/<str:subpool>", subpools.SubpoolDetail.as_view()),
    path("configs/backend", backends.BackendList.as_view()),
    path("configs/backend/<str:name>", backends.BackendDetail.as_view()),
    path("configs/history", history.History.as_view()),
    path("configs/history/rollback", history.Rollback.as_view()),
    path("configs/history/<str:config_type>/revision/<int:revision>", revisions.Revision.as_view()),
    path("configs/history/<str:config_type>/revision/<int:revision>/tags", revisions.RevisionTags.as_view()),
    path("configs/diff", history.Diff.as_view()),
]
