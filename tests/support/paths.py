"""Where the project's own files are, for tests at any depth."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
