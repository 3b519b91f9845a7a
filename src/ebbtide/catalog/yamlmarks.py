"""YAML as plain values that remember their lines.

A document becomes dicts, lists and scalars, and beside them a map from each place (`$.models[0].id`, the way msgspec
writes paths) to its line, counted from 1. `${NAME}` in a string is taken from the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MAX_LEVELS = 16


class YamlFault(Exception):
    """The text is not what a models file may be; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def read_marked(text: str, environ: Mapping[str, str]) -> tuple[object, dict[str, int]]:
    """Parse `text` into (value, lines by path). Raises YamlFault."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {"$": 1}
        reader = _Reader(loader, environ)
        return reader.value(node, "$", 0), reader.lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(error.problem or "not valid YAML", mark.line + 1 if mark else 1) from error
    except yaml.reader.ReaderError as error:
        raise YamlFault(
            "holds a character that YAML does not allow", text.count("\n", 0, error.position) + 1
        ) from error
    finally:
        loader.dispose()


class _Reader:
    """Walks the node tree, and notes where each value was written."""

    def __init__(self, loader: yaml.SafeLoader, environ: Mapping[str, str]) -> None:
        self._loader = loader
        self._environ = environ
        self.lines: dict[str, int] = {}

    def value(self, node: yaml.Node, path: str, level: int) -> object:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if level > _MAX_LEVELS:
            raise YamlFault("nested too deeply", line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, level)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, f"{path}[{i}]", level + 1) for i, child in enumerate(node.value)]
        return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode, path: str, level: int) -> dict[str, object]:
        members: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                raise YamlFault("a key must be a plain name", line)
            if key in members:
                raise YamlFault(f"key '{key}' is repeated", line)
            self.lines[f"{path}.{key}"] = line
            members[key] = self.value(value_node, f"{path}.{key}", level + 1)
        return members

    def _scalar(self, node: yaml.Node, line: int) -> object:
        try:
            value: object = self._loader.construct_object(node)
        except ValueError as error:
            raise YamlFault(f"not a value of its kind: {node.value!r}", line) from error
        if not isinstance(value, str):
            return value
        return _VARIABLE.sub(lambda match: self._variable(match[1], line), value)

    def _variable(self, name: str, line: int) -> str:
        if name not in self._environ:
            raise YamlFault(f"${{{name}}}: the environment has no variable {name}", line)
        return self._environ[name]
