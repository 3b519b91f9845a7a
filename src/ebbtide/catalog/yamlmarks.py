"""YAML as plain values that remember their lines.

A document becomes dicts, lists and scalars, and beside them a map from each place (`$.models[0].id`, the way msgspec
writes paths) to its line, counted from 1. `${NAME}` in a string is taken from the environment. What could grow without
end is refused while it is read: aliases, deep nesting, long numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MAX_LEVELS = 16
_LONGEST_NUMBER = 100  # characters of anything that YAML reads as other than text
_TEXT = "tag:yaml.org,2002:str"
_SCALARS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp"))
_COLLECTIONS = frozenset({"tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})
# What PyYAML itself lets escape for text that it cannot read, beside its own errors.
_ESCAPED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class YamlFault(Exception):
    """The text is not what a models file may be; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def read_marked(text: str, environ: Mapping[str, str]) -> tuple[object, dict[str, int]]:
    """Parse `text` into (value, lines by path). Raises YamlFault, whatever is wrong with it."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlFault("holds a character that YAML does not allow", line) from error
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {"$": 1}
        reader = _Reader(loader, environ)
        return reader.value(node, "$"), reader.lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(error.problem or "not valid YAML", mark.line + 1 if mark else 1) from error
    except (yaml.YAMLError, *_ESCAPED) as error:
        raise YamlFault("not valid YAML", loader.line + 1) from error
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Refuses aliases and deep nesting before a node of them is made."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it without types
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise YamlFault("anchors and aliases (& and *) are not used in a models file", line)
        if self._level > _MAX_LEVELS:
            raise YamlFault("nested too deeply", line)
        self._level += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._level -= 1
        return node


class _Reader:
    """Walks the node tree, and notes where each value was written."""

    def __init__(self, loader: yaml.SafeLoader, environ: Mapping[str, str]) -> None:
        self._loader = loader
        self._environ = environ
        self.lines: dict[str, int] = {}

    def value(self, node: yaml.Node, path: str) -> object:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if node.tag not in (_SCALARS if isinstance(node, yaml.ScalarNode) else _COLLECTIONS):
            raise YamlFault("a tag that a models file does not use", line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, f"{path}[{i}]") for i, child in enumerate(node.value)]
        return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, object]:
        members: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TEXT:
                raise YamlFault("a key must be a plain name", line)
            key = _whole(key_node.value, line)
            if key in members:
                raise YamlFault(f"key '{key}' is repeated", line)
            self.lines[f"{path}.{key}"] = line
            members[key] = self.value(value_node, f"{path}.{key}")
        return members

    def _scalar(self, node: yaml.Node, line: int) -> object:
        if node.tag == _TEXT:
            return _VARIABLE.sub(lambda match: self._variable(match[1], line), _whole(node.value, line))
        if len(node.value) > _LONGEST_NUMBER:
            raise YamlFault("longer than any number may be", line)
        try:
            value: object = self._loader.construct_object(node)
        except (yaml.YAMLError, *_ESCAPED) as error:
            raise YamlFault("not a value of its kind", line) from error
        return value

    def _variable(self, name: str, line: int) -> str:
        if name not in self._environ:
            raise YamlFault(f"${{{name}}}: the environment has no variable {name}", line)
        return self._environ[name]


def _whole(text: str, line: int) -> str:
    """Text that can be written anywhere; an escape in quotes may have made half a character. Raises YamlFault."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise YamlFault("holds half a character (a lone surrogate)", line) from error
    return text
