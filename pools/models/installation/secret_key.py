"""The row by which each process knows whether it has the secret key of this database."""

from __future__ import annotations

from django.db import models


class SecretKeyCheck(models.Model):
    """One row: a random text, sealed with the secret key. A process that cannot read it could read nothing else that is
    sealed here. Like the other sealed texts it helps nobody to guess a key of 32 random characters."""

    sealed = models.TextField()

    class Meta:
        verbose_name = "secret key check"

    def __str__(self) -> str:
        return "secret key check"
