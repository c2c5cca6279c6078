"""Which AWS operations the code of each function can reach: a call graph, without running anything.

A name is followed to the function that it means in its module, a method by its receiver: `self`, a field of
`Mill`, or a parameter with an annotation. Where the receiver is unknown, `possible` follows every method of
that name and `certain` none. So a function needs at least what is certain, and nothing that is not possible.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from support.paths import PROJECT

PACKAGE = PROJECT / "layers/core/python/shardmill"
OUTSIDE = ("cli", "client", "local", "web")
Place = tuple[str, str]
"""A module and the qualified name of a function in it; "" for the module's own code."""


@dataclass
class Module:
    name: str
    tree: ast.Module
    functions: dict[str, ast.AST] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What a name was imported as: a module and a name in it, which is "" for the module itself."""

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("shardmill"):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (node.module, alias.name)
        self.functions[""] = ast.Module(
            [node for node in self.tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)], []
        )
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.FunctionDef):
                        self.functions[f"{node.name}.{each.name}"] = each

    @property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}


class CallGraph:
    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self._known: dict[Place, set[Place]] = {}
        self._guessed: dict[Place, set[Place]] = {}
        self._called: dict[Place, set[str]] = {}
        for file in PACKAGE.rglob("*.py"):
            path = file.relative_to(PACKAGE.parent).with_suffix("")
            if path.parts[1] not in OUTSIDE:
                name = ".".join(path.parts).removesuffix(".__init__")
                self.modules[name] = Module(name, ast.parse(file.read_text()))

    @cached_property
    def _methods(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = defaultdict(list)
        for module in self.modules.values():
            for name in module.functions:
                if "." in name:
                    found[name.split(".")[1]].append((module.name, name))
        return found

    @cached_property
    def _receivers(self) -> dict[str, str]:
        """The class of what an attribute holds, for the fields of Mill and a few others."""
        mill = self.modules["shardmill.engine.mill"].classes["Mill"]
        found = {"_table": "Table", "table": "Table"}
        for node in mill.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = ast.unparse(node.annotation).split("[")[0]
        return found

    def certain(self, entry: Path, roots: Iterable[Place] = ()) -> set[str]:
        """The operations, such as `dynamodb:UpdateItem`, to which calls with known receivers lead."""
        return self._reached(entry, roots, self._known)

    def possible(self, entry: Path, roots: Iterable[Place] = ()) -> set[str]:
        """The operations to which any calls lead."""
        return self._reached(entry, roots, self._guessed)

    def _reached(self, entry: Path, roots: Iterable[Place], follow: dict[Place, set[Place]]) -> set[str]:
        module = Module(str(entry), ast.parse(entry.read_text()))
        self.modules[module.name] = module
        seen: set[Place] = set()
        waiting: list[Place] = [(module.name, name) for name in module.functions] + list(roots)
        found: set[str] = set()
        while waiting:
            place = waiting.pop()
            node = self.modules[place[0]].functions.get(place[1]) if place[0] in self.modules else None
            if place in seen or node is None:
                continue
            seen.add(place)
            if place not in follow:
                follow[place] = set(self._references(place, node, guess=follow is self._guessed))
                self._called[place] = set(_operations(place[0], node))
            found |= self._called[place]
            waiting += follow[place]
        return found

    def _references(self, place: Place, node: ast.AST, *, guess: bool) -> Iterator[Place]:
        module = self.modules[place[0]]
        yield (place[0], "")
        typed = dict(_annotated(node))
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                yield from self._named(module, each.id)
            elif isinstance(each, ast.Attribute):
                yield from self._attribute(module, place[1], each, typed, guess=guess)

    def _named(self, module: Module, name: str) -> Iterator[Place]:
        if name in module.functions:
            yield (module.name, name)
        elif name in module.classes:
            yield from self._constructor(module.name, name)
        elif name in module.imports:
            home, imported = module.imports[name]
            if f"{home}.{imported}" in self.modules:
                yield (f"{home}.{imported}", "")
            elif home in self.modules:
                yield from self._named(self.modules[home], imported)
                yield (home, "")

    def _constructor(self, module: str, name: str) -> Iterator[Place]:
        for each in ("__init__", "__post_init__", "__enter__", "__exit__", "__call__"):
            if f"{name}.{each}" in self.modules[module].functions:
                yield (module, f"{name}.{each}")

    def _attribute(
        self, module: Module, inside: str, node: ast.Attribute, typed: dict[str, str], *, guess: bool
    ) -> Iterator[Place]:
        value = node.value
        if isinstance(value, ast.Name) and value.id in module.imports:
            home, imported = module.imports[value.id]
            if f"{home}.{imported}" in self.modules:
                yield from self._named(self.modules[f"{home}.{imported}"], node.attr)
                return
        owner = None
        if isinstance(value, ast.Name) and value.id == "self" and "." in inside:
            owner = inside.split(".")[0]
        elif isinstance(value, ast.Attribute) and value.attr in self._receivers:
            owner = self._receivers[value.attr]
        elif isinstance(value, ast.Name):
            owner = typed.get(value.id)
        places = self._methods.get(node.attr, [])
        owned = [each for each in places if owner and each[1].split(".")[0] == owner]
        yield from owned or (places if guess else ())


def _annotated(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The parameters of a function and the classes of their annotations."""
    if isinstance(node, ast.FunctionDef):
        for each in (*node.args.args, *node.args.kwonlyargs):
            if each.annotation is not None:
                yield each.arg, ast.unparse(each.annotation).split(" | ")[0].strip("'\"")


_SERVICES = {
    "store.table": "dynamodb",
    "aws.queues": "sqs",
    "aws.machines": "states",
    "aws.bus": "events",
    "aws.files": "s3",
    "worker.logs": "s3",
    "aws.topics": "sns",
    "aws.functions": "lambda",
    "worker.task.lambda_task": "lambda",
}
_NAMES = {"ssm": "ssm", "secretsmanager": "secretsmanager", "kms": "kms", "s3": "s3"}
_TRANSACTION = {
    "put_request": "PutItem",
    "update_request": "UpdateItem",
    "check_request": "ConditionCheckItem",
    "delete_request": "DeleteItem",
}


def _operations(module: str, node: ast.AST) -> Iterator[str]:
    """The operations that a function calls itself."""
    service = _SERVICES.get(module.removeprefix("shardmill."))
    text = ast.unparse(node)
    names: list[str] = []
    if service:
        names = re.findall(r"_client\.(\w+)", text) + re.findall(r"get_paginator\('(\w+)'\)", text)
        names += re.findall(r"_sign\('(\w+)'", text) + re.findall(r"presigned_url\('(\w+)'", text)
        names += re.findall(r"s3\(\)\.(\w+)", text) if service == "s3" else []
        if service == "lambda":
            names += re.findall(r"\)\.(invoke)\(", text)
        for name in names:
            if name not in (
                "get_paginator",
                "generate_presigned_url",
                "exceptions",
                "meta",
                "transact_write_items",
            ):
                yield f"{service}:{_camel(name)}"
    if module == "shardmill.store.table" and isinstance(node, ast.FunctionDef) and node.name in _TRANSACTION:
        yield f"dynamodb:{_TRANSACTION[node.name]}"
    for name, of in _NAMES.items():
        for called in re.findall(rf"_{name}\(\)\.(\w+)", text):
            yield f"{of}:{_camel(called)}"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
