"""Changes of users, their tokens, logins, views and notice targets."""
