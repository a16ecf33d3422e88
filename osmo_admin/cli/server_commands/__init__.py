"""The commands of `osmo-admin`, one file for each subject."""
