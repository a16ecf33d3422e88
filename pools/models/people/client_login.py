"""Clients that wait for the consent of a person."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from pools.models.people.membership import User
from pools.models.people.sign_on import SignOnIdentity


class ClientLogin(models.Model):
    """A client (`osmo login`) that waits until a person consents in the browser. `user_code` is shown to the person,
    the client alone has the secret of `digest`."""

    digest = models.CharField(max_length=64, unique=True)
    user_code = models.CharField(max_length=9, unique=True)
    client_name = models.TextField(blank=True)
    address = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    identity = models.ForeignKey(SignOnIdentity, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    is_denied = models.BooleanField(default=False)

    class Meta:
        ordering = ["created_at"]

    def __str__(self) -> str:
        return self.user_code
