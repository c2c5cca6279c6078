"""Resolve the intrinsic functions of template.yaml as CloudFormation does, as far as the tests need it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmill.local.sam_template import load_emulated_template


class TemplateFault(Exception):
    """The template asks for something that the test loader does not know."""


NOTHING = object()
"""What AWS::NoValue becomes: the property is left out."""

_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")


@dataclass
class Template:
    """A parsed template and the physical names given to its resources so far."""

    document: dict[str, Any]
    names: dict[str, Any]
    attributes: dict[tuple[str, str], str] = field(default_factory=dict)
    unmodelled: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path, pseudo: Mapping[str, str], parameters: Mapping[str, str]) -> "Template":
        document = load_emulated_template(path)
        names: dict[str, Any] = dict(pseudo)
        for name, declared in document.get("Parameters", {}).items():
            if name in parameters:
                names[name] = parameters[name]
            elif "Default" in declared:
                names[name] = str(declared["Default"])
            else:
                raise TemplateFault(f"parameter {name} has no default and no value was given")
        return cls(document, names)

    def resources(self, *types: str) -> dict[str, dict[str, Any]]:
        """The resources of these types whose condition holds, by logical name."""
        return {
            name: resource
            for name, resource in self.document["Resources"].items()
            if resource["Type"] in types and self.holds(resource.get("Condition"))
        }

    def properties(self, logical: str) -> dict[str, Any]:
        resolved = self.resolve(self.document["Resources"][logical].get("Properties", {}))
        assert isinstance(resolved, dict)
        return resolved

    def resolve(self, value: Any) -> Any:
        if isinstance(value, dict):
            if len(value) == 1:
                [(name, argument)] = value.items()
                if name in _FUNCTIONS:
                    return _FUNCTIONS[name](self, argument)
            resolved = {key: self.resolve(item) for key, item in value.items()}
            return {key: item for key, item in resolved.items() if item is not NOTHING}
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not NOTHING]
        return value

    def holds(self, condition: str | None) -> bool:
        if condition is None:
            return True
        return bool(self.resolve(self.document["Conditions"][condition]))

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NOTHING
        if name not in self.names:
            raise TemplateFault(f"!Ref {name}: the test stack has no name for it (yet)")
        return self.names[name]

    def _get_att(self, argument: list[str]) -> str:
        logical, attribute = argument
        if logical in self.unmodelled:
            return f"{self.names[logical]}-{attribute}"
        if (logical, attribute) not in self.attributes:
            raise TemplateFault(f"!GetAtt {logical}.{attribute}: the test stack does not know it (yet)")
        return self.attributes[logical, attribute]

    def _sub(self, argument: str | list[Any]) -> str:
        text, extra = (argument, {}) if isinstance(argument, str) else argument
        local = {key: self.resolve(item) for key, item in extra.items()}

        def replace(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return f"${{{name}}}"
            if name in local:
                return str(local[name])
            if "." in name:
                return self._get_att(name.split(".", 1))
            return str(self._ref(name))

        return _PLACEHOLDER.sub(replace, text)

    def _join(self, argument: list[Any]) -> str:
        separator, items = argument
        return str(separator).join(str(item) for item in self.resolve(items))

    def _if(self, argument: list[Any]) -> Any:
        condition, yes, no = argument
        return self.resolve(yes if self.holds(condition) else no)

    def _select(self, argument: list[Any]) -> Any:
        index, items = argument
        return self.resolve(items)[int(index)]

    def _split(self, argument: list[Any]) -> list[str]:
        separator, text = argument
        return str(self.resolve(text)).split(separator)

    def _equals(self, argument: list[Any]) -> bool:
        left, right = map(self.resolve, argument)
        return bool(left == right)

    def _not(self, argument: list[Any]) -> bool:
        return not self.resolve(argument[0])


_FUNCTIONS: dict[str, Callable[[Template, Any], Any]] = {
    "Ref": Template._ref,
    "Condition": Template.holds,
    "Fn::GetAtt": Template._get_att,
    "Fn::Sub": Template._sub,
    "Fn::Join": Template._join,
    "Fn::If": Template._if,
    "Fn::Select": Template._select,
    "Fn::Split": Template._split,
    "Fn::Equals": Template._equals,
    "Fn::Not": Template._not,
}
