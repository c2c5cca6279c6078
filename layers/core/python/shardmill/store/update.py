"""A builder of UpdateItem expressions and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from shardmill.store.codec import encode, encode_item

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """The clauses and conditions of an UpdateItem, with the names and values that they use."""

    key: Item
    clauses: dict[str, list[str]] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    values: Item = field(default_factory=dict)

    def _name(self, name: str) -> str:
        alias = f"#n{len(self.names)}"
        for known, real in self.names.items():
            if real == name:
                return known
        self.names[alias] = name
        return alias

    def _value(self, value: Any) -> str:
        alias = f":v{len(self.values)}"
        self.values[alias] = value
        return alias

    def set(self, **changes: Any) -> Update:
        return self.set_all(changes)

    def set_all(self, changes: Mapping[str, Any]) -> Update:
        for name, value in changes.items():
            if value is None:
                self.remove(name)
            else:
                self.clauses.setdefault("SET", []).append(f"{self._name(name)} = {self._value(value)}")
        return self

    def add(self, **amounts: Any) -> Update:
        for name, amount in amounts.items():
            self.clauses.setdefault("ADD", []).append(f"{self._name(name)} {self._value(amount)}")
        return self

    def append(self, name: str, value: str) -> Update:
        """Append a value to a list, which is created if it is absent."""
        alias = self._name(name)
        clause = f"{alias} = list_append(if_not_exists({alias}, {self._value([])}), {self._value([value])})"
        self.clauses.setdefault("SET", []).append(clause)
        return self

    def remove_elements(self, name: str, indexes: Iterable[int]) -> Update:
        """Remove elements of a list by their indexes."""
        alias = self._name(name)
        self.clauses.setdefault("REMOVE", []).extend(f"{alias}[{index}]" for index in indexes)
        return self

    def set_once(self, name: str, value: Any) -> Update:
        alias = self._name(name)
        clause = f"{alias} = if_not_exists({alias}, {self._value(value)})"
        self.clauses.setdefault("SET", []).append(clause)
        return self

    def delete(self, name: str, members: AbstractSet[str]) -> Update:
        self.clauses.setdefault("DELETE", []).append(f"{self._name(name)} {self._value(members)}")
        return self

    def remove(self, *names: str) -> Update:
        self.clauses.setdefault("REMOVE", []).extend(self._name(name) for name in names)
        return self

    def if_equal(self, **expected: Any) -> Update:
        return self.if_all_equal(expected)

    def if_all_equal(self, expected: Mapping[str, Any]) -> Update:
        """Require that each attribute has the given value; None means that it is absent."""
        for name, value in expected.items():
            if value is None:
                self.conditions.append(f"attribute_not_exists({self._name(name)})")
            else:
                self.conditions.append(f"{self._name(name)} = {self._value(value)}")
        return self

    def if_in(self, name: str, values: Iterable[Any]) -> Update:
        listed = ", ".join(self._value(value) for value in values)
        self.conditions.append(f"{self._name(name)} IN ({listed})")
        return self

    def if_exists(self, name: str) -> Update:
        self.conditions.append(f"attribute_exists({self._name(name)})")
        return self

    def if_contains(self, name: str, member: str) -> Update:
        self.conditions.append(f"contains({self._name(name)}, {self._value(member)})")
        return self

    def if_lacks(self, name: str, member: str) -> Update:
        """Require that a set does not have a member, or is absent."""
        self.conditions.append(f"NOT contains({self._name(name)}, {self._value(member)})")
        return self

    def if_smaller(self, name: str, size: int) -> Update:
        """Require that a set or list has fewer than `size` members, or is absent."""
        alias = self._name(name)
        self.conditions.append(f"(attribute_not_exists({alias}) OR size({alias}) < {self._value(size)})")
        return self

    def if_at_most(self, name: str, most: int) -> Update:
        """Require that a counter, which is never negative, is at most `most`; 0 if it is absent."""
        alias = self._name(name)
        present = f"{alias} <= {self._value(most)}"
        self.conditions.append(present if most < 0 else f"(attribute_not_exists({alias}) OR {present})")
        return self

    def if_length(self, name: str, length: int) -> Update:
        """Require that a set or list has exactly `length` members."""
        self.conditions.append(f"size({self._name(name)}) = {self._value(length)}")
        return self

    def if_room_for(self, name: str, member: str, size: int) -> Update:
        """Require that a set has fewer than `size` members, is absent, or already has this member."""
        alias = self._name(name)
        self.conditions.append(
            f"(attribute_not_exists({alias}) OR size({alias}) < {self._value(size)}"
            f" OR contains({alias}, {self._value(member)}))"
        )
        return self

    def if_new_or_equal(self, name: str, value: Any) -> Update:
        alias = self._name(name)
        self.conditions.append(f"(attribute_not_exists({alias}) OR {alias} = {self._value(value)})")
        return self

    def raise_to(self, value: int, *path: str) -> Update:
        """Set a number that only grows: the condition fails unless it is absent or below `value`."""
        where = ".".join(self._name(part) for part in path)
        self.clauses.setdefault("SET", []).append(f"{where} = {self._value(value)}")
        self.conditions.append(f"(attribute_not_exists({where}) OR {where} < {self._value(value)})")
        return self

    def condition(self) -> Item:
        """The key and the conditions, without the update expression."""
        request = self.request()
        request.pop("UpdateExpression")
        return request

    def request(self) -> Item:
        request: Item = {
            "Key": encode_item(self.key),
            "UpdateExpression": " ".join(
                f"{verb} {', '.join(parts)}" for verb, parts in self.clauses.items()
            ),
            "ExpressionAttributeNames": self.names,
        }
        if self.conditions:
            request["ConditionExpression"] = " AND ".join(self.conditions)
        if self.values:
            request["ExpressionAttributeValues"] = {
                name: encode(value) for name, value in self.values.items()
            }
        return request
