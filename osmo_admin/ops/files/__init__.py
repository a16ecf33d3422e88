"""The files of an installation."""
