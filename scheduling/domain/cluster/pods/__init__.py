"""Pods and pod groups: what is sent, and what is read from them."""
