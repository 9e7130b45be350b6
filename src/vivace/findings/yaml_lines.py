"""YAML with the lines its values stand on, so that a rule file can be refused by line."""

from __future__ import annotations

from typing import TypeAlias

import yaml

__all__ = ["List", "Table", "Value", "YamlError", "documents"]

_LONGEST = 1_000_000
_MOST = 50_000
"""Values in one file: references to references can make few lines very many."""
_DEEPEST = 60


class YamlError(ValueError):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        """Counted from 1."""
        self.message = message


class Table(dict[str, "Value"]):
    """A mapping that knows where its keys are."""

    line = 1
    lines: dict[str, int]


class List(list["Value"]):
    line = 1
    lines: list[int]


Value: TypeAlias = str | int | float | bool | Table | List | None

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str) -> list[Value]:
    """All documents of a file; those that are empty are left out."""
    if len(text) > _LONGEST:
        raise YamlError(1, f"the file has more than {_LONGEST:,} characters. Split it.")
    try:
        loader = _Loader(text)
        reading = _Reading(loader)
        found: list[Value] = []
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            found.append(reading.value(node, 0))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(
            mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}"
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlError(1, f"this is not YAML: {error}") from None
    return [each for each in found if each is not None]


class _Reading:
    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._count = 0

    def value(self, node: yaml.Node, depth: int) -> Value:
        self._count += 1
        line = node.start_mark.line + 1
        if self._count > _MOST or depth > _DEEPEST:
            raise YamlError(line, "the file has too many values, or they are nested too deep.")
        if isinstance(node, yaml.MappingNode):
            return self._table(node, depth)
        if isinstance(node, yaml.SequenceNode):
            many = List(self.value(each, depth + 1) for each in node.value)
            many.line, many.lines = line, [each.start_mark.line + 1 for each in node.value]
            return many
        plain = self._loader.construct_object(node)
        return plain if isinstance(plain, str | int | float | None) else str(node.value)

    def _table(self, node: yaml.MappingNode, depth: int) -> Table:
        table, lines = Table(), {}
        for key, value in node.value:
            name = str(key.value)
            lines[name] = key.start_mark.line + 1
            if name in table:
                raise YamlError(lines[name], f"'{name}' stands here twice. Remove one of them.")
            table[name] = self.value(value, depth + 1)
        table.line, table.lines = node.start_mark.line + 1, lines
        return table
