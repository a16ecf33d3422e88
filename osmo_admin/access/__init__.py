"""Logins: by password, directory, and an OpenID provider."""
