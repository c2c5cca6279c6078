"""Fixtures for tests of what is drawn on a terminal."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

Draw = Callable[[Any], list[str]]


@pytest.fixture
def draw() -> Draw:
    """Return the lines of a rich renderable."""

    def lines(renderable: Any) -> list[str]:
        console = Console(file=io.StringIO(), width=100)
        console.print(renderable)
        return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]

    return lines
