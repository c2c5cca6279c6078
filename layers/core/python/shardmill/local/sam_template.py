"""The only reader of template.yaml, for the laptop cloud and the tests.

Short intrinsic functions (`!Ref`, `!Sub` …) are returned in their long form (`Ref`, `Fn::Sub` …).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    pass


def _intrinsic(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = node.value.split(".", 1) if name == "GetAtt" else node.value
    return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _intrinsic)


def load_template(file: Path) -> dict[str, Any]:
    """Parse a template. Callers share the result and must not change it."""
    return _parse(file.read_text())


@cache
def _parse(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(text, _Loader)  # noqa: S506 - derived from SafeLoader
    return loaded
