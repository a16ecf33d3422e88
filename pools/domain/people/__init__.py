"""Users, roles and what belongs to a person."""
