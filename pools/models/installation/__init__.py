"""Rows of the installation itself."""
