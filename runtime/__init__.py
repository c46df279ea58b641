"""Plumbing shared by the services."""
