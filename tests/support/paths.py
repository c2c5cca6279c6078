"""Paths of the project's own files."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
