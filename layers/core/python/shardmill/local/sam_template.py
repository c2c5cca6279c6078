"""Reads template.yaml, its short intrinsic functions (!Ref, !Sub …) in their long form."""

from __future__ import annotations

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
    loaded: dict[str, Any] = yaml.load(file.read_text(), _Loader)  # noqa: S506 - derived from SafeLoader
    return loaded
