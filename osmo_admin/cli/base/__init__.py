"""What all commands share: the session, HTTP, options and output."""
