"""The map in docs/architecture.md names files, functions and classes that exist."""

import ast
import re

import pytest

from support.paths import PROJECT

PAGE = (PROJECT / "docs" / "architecture.md").read_text()
PACKAGE = PROJECT / "layers" / "core" / "python" / "shardmill"
MAP = PAGE[PAGE.index("<!-- map:begin -->") : PAGE.index("<!-- map:end -->")]
ROWS = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \| `(\w+)` \|$", MAP, re.MULTILINE)


def top_level_names(path: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse((PACKAGE / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_the_map_has_thirty_rows_that_can_be_read() -> None:
    lines = [line for line in MAP.splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(lines) - 2  # the heading and the line below it
    assert len(ROWS) >= 30


@pytest.mark.parametrize(("behaviour", "path", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_each_row_names_a_file_and_a_definition_in_it(behaviour: str, path: str, name: str) -> None:
    assert name in top_level_names(path)


def test_every_function_is_listed_as_an_entry_point() -> None:
    listed = re.findall(r"^\| `functions/(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(path.parent.name for path in (PROJECT / "functions").glob("*/app.py"))


def test_every_package_is_listed() -> None:
    listed = re.findall(r"`((?:\w+/)+)`", PAGE[PAGE.index("## Packages") : PAGE.index("## What is stored")])
    packages = {f"{path.parent.relative_to(PACKAGE)}/" for path in PACKAGE.glob("*/__init__.py")}
    packages |= {f"{path.parent.relative_to(PACKAGE)}/" for path in PACKAGE.glob("engine/*/__init__.py")}
    assert packages - {"web/"} <= set(listed)
