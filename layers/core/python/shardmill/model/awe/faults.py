"""The faults of an AWE document, each as a sentence that names its place."""

from __future__ import annotations

import json
from typing import Any


def _as_text(value: Any) -> str:
    return "" if value is None else json.dumps(value)


class DocumentFault(Exception):
    """An AWE document that cannot be accepted; `texts` has all its faults."""

    def __init__(self, *texts: str) -> None:
        super().__init__("; ".join(texts))
        self.texts = list(texts)


class Faults:
    """Collects the faults of a document while its fields are read."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, where: str, text: str) -> None:
        self.texts.append(f"{where}: {text}" if where else text)

    def text(self, value: Any, where: str, default: str = "") -> str:
        """A text; numbers are accepted, because submitters write ids both ways."""
        if value is None:
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self.add(where, "must be a string")
        return default

    def number(self, value: Any, where: str, default: int = 0) -> int:
        if value is None or value == "":
            return default
        if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 16:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            return value
        self.add(where, "must be an integer")
        return default

    def flag(self, value: Any, where: str) -> bool:
        if value in (None, "", "false", "False", "0"):
            return False
        if isinstance(value, bool | int):
            return bool(value)
        if value in ("true", "True", "1"):
            return True
        self.add(where, "must be true or false")
        return False

    def texts_of(self, value: Any, where: str) -> dict[str, str]:
        """An object whose values are texts."""
        return {name: self.text(each, f"{where}.{name}") for name, each in self.object(value, where).items()}

    def attributes(self, value: Any, where: str) -> dict[str, str]:
        """An object whose values become texts: documents contain any, and clients expect texts."""
        found = self.object(value, where).items()
        return {name: each if isinstance(each, str) else _as_text(each) for name, each in found}

    def object(self, value: Any, where: str) -> dict[str, Any]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.add(where, "must be an object")
        return {}

    def raise_if_any(self) -> None:
        if self.texts:
            raise DocumentFault(*self.texts)
