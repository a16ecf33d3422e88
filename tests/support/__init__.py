"""What tests stand on: servers of their own, a clean database, a running house, a browser, and what is missing."""
