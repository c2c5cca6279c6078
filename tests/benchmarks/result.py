from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """A measurement and its budget, if there is one: a maximum or a minimum."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None

    @property
    def budget(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g} {self.unit}"
        if self.at_least is not None:
            return f"at least {self.at_least:g} {self.unit}"
        return "-"

    def row(self) -> str:
        met = {True: "yes", False: "NO", None: "-"}[self.met]
        return f"| {self.what} | {self.value:.3g} {self.unit} | {self.budget} | {met} |"

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.3g} {self.unit} ({self.budget})"
