"""The only reader of template.yaml, for the laptop cloud and the tests.

Short intrinsic functions (`!Ref`, `!Sub` …) are returned in their long form (`Ref`, `Fn::Sub` …).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_ALIAS = "AWS::StepFunctions::StateMachineAlias"
_VERSIONED = (_ALIAS, "AWS::StepFunctions::StateMachineVersion")


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


def load_emulated_template(file: Path) -> dict[str, Any]:
    """Parse a template for an emulator: without versions and aliases of state machines.

    MiniStack's CloudFormation does not create them, and moto has none. Executions are started by the ARN of
    the state machine instead, which on AWS means its newest definition: the one that the alias points to.
    Callers share the result and must not change it.
    """
    return _emulated(file.read_text())


@cache
def _emulated(text: str) -> dict[str, Any]:
    template: dict[str, Any] = json.loads(json.dumps(_parse(text)))
    resources = template["Resources"]
    aliases = {name: each for name, each in resources.items() if each["Type"] == _ALIAS}
    machines = {name: _machine(resources, alias) for name, alias in aliases.items()}
    template["Resources"] = {name: each for name, each in resources.items() if each["Type"] not in _VERSIONED}
    for resource in template["Resources"].values():
        needed = resource.get("DependsOn")
        if isinstance(needed, list):
            resource["DependsOn"] = [machines.get(each, each) for each in needed]
    variables = template.get("Globals", {}).get("Function", {}).get("Environment", {}).get("Variables", {})
    if "SHARDMILL_MACHINE_ALIAS" in variables:
        variables["SHARDMILL_MACHINE_ALIAS"] = ""
    return template


def _machine(resources: dict[str, Any], alias: dict[str, Any]) -> str:
    """The state machine of an alias."""
    version = alias["Properties"]["DeploymentPreference"]["StateMachineVersionArn"]["Ref"]
    return str(resources[version]["Properties"]["StateMachineArn"]["Ref"])
