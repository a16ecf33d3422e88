"""Access tokens, JWTs and the encryption of stored secrets."""
