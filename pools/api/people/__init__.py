"""Endpoints of users, logins, tokens, views and notices."""
