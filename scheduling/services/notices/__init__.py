"""Notices: conditions are found, notices are made from the audit trail, and sent."""
