"""Rows of users: membership, logins, views and notices."""
