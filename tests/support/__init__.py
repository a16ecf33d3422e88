"""Support of tests: own servers, a clean database, a running installation, a browser, and missing tools."""
