"""Pages of users, tokens, notices and views."""
