"""Backup and restore: files, the dump of a running installation, and the way back."""
