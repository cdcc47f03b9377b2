"""The explorer's page and its service."""
