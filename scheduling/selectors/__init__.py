"""Reads of work: facts for the rules, and forms for API and pages."""
