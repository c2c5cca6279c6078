"""Test support; see README.md."""
