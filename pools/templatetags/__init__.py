"""The tags and filters of the templates of all pages."""
