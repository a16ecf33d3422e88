"""Sign-ons through identity providers and directories: who is let in, which account and roles follow, and the end."""
