"""Python names that stand for nothing, and the imports that would make them stand for something.

A small model adds ``-> Optional[int]`` and forgets where ``Optional`` comes from. Only names that
nothing in the file could bind are counted, in whatever scope: a check that cries wolf is no use.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable

from vivace.syntax.source import Source

__all__ = ["bound_by", "imports_for", "new_error", "newly_unbound", "unbound", "used_imports"]

_IMPLICIT = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__", "__spec__"}
_HOMES = {
    "abc": "ABC abstractmethod",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "collections.abc": "AsyncIterator Awaitable Callable Generator Hashable Iterable Iterator "
    "Mapping MutableMapping Sequence",
    "contextlib": "closing contextmanager suppress",
    "dataclasses": "dataclass",
    "datetime": "timedelta timezone",
    "decimal": "Decimal",
    "enum": "Enum",
    "functools": "cached_property lru_cache partial total_ordering wraps",
    "pathlib": "Path",
    "typing": "Any ClassVar Dict Final List Literal NamedTuple NoReturn Optional Protocol Self Set "
    "Tuple Type TypeVar TypedDict Union cast overload",
}
_WILDCARD = re.compile(r"import[\s\\(]*\*")
"""Where such an import may stand; to look through the tree takes longer."""
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def unbound(text: str) -> set[str]:
    """Names that are read and bound nowhere; none where the text cannot be judged."""
    bound, read = _names(text)
    return set() if "*" in bound else read - bound - _IMPLICIT


def newly_unbound(before: Source, after: Source) -> set[str]:
    """Names that are unbound after an edit and were not before it.

    Only the statements that the edit touched are read, and those that hold a name in question: to
    read the whole of a large file twice would take longer than the rest of the edit.
    """
    gone, come, same = _touched(before, after)
    apart = all(map(_can_be_read_apart, (before, after)))
    if not apart or not (_reads("".join(gone)) and _reads("".join(come))):
        return unbound(after.text) - unbound(before.text)
    bound_then, read_then = _names("".join(gone))
    bound_now, read_now = _names("".join(come))
    suspects = ((read_now - read_then) | (bound_then - bound_now)) - bound_now - _IMPLICIT
    found: set[str] = set()
    for name in suspects:
        bound, read = _names("".join(statement for statement in same if name in statement))
        was = name in read_then | read and name not in bound_then | bound
        if name in read_now | read and name not in bound and not was:
            found.add(name)
    return found


def new_error(before: Source, after: Source) -> int | None:
    """The line that Python itself refuses after an edit, and no line before it: tree-sitter
    overlooks wrong indentation. A large file is read whole only if a touched statement is wrong."""
    _, come, _ = _touched(before, after)
    if not after.errors and all(map(_reads, come)):
        return None
    return None if _error(before.text) is not None else _error(after.text)


def _touched(before: Source, after: Source) -> tuple[list[str], list[str], list[str]]:
    """The statements that went, those that came, and those that stayed."""
    then, now = (Counter(text for _, text in each.statements) for each in (before, after))
    gone, come, same = then - now, now - then, then & now
    return list(gone.elements()), list(come.elements()), list(same.elements())


def _can_be_read_apart(source: Source) -> bool:
    """Whether its statements say what they say in the whole: none is wrong or indented, and none
    brings names unseen."""
    if source.errors or any(text[:1] in " \t" for _, text in source.statements):
        return False
    return _WILDCARD.search(source.text) is None or not source.nodes({"wildcard_import"})


def _reads(text: str) -> bool:
    return _error(text) is None


def _error(text: str) -> int | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return max(0, (error.lineno or 1) - 1)
        except (ValueError, RecursionError, MemoryError):
            return None
    return None


def _names(text: str) -> tuple[set[str], set[str]]:
    """Those that are bound, and those that are read."""
    bound: set[str] = set()
    read: set[str] = set()
    for node in _nodes(text):
        bound.update(_bound_by(node))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
    return bound, read


def bound_by(text: str) -> set[str]:
    """Names that are bound somewhere; ``*`` if one cannot know which."""
    return _names(text)[0]


def _nodes(text: str) -> list[ast.AST]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []


def _bound_by(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.Name() | ast.alias():
            return ()
        case ast.ClassDef(name=name):
            return (name, "__class__", "__qualname__", "__module__")
        case ast.Import(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case _:
            # Handlers, patterns; and type parameters, whose nodes Python 3.11 does not have.
            other = getattr(node, "name", None)
            return (other,) if isinstance(other, str) else ()


def used_imports(imports: str, text: str) -> list[str]:
    """Those of the import statements that this text has a use for."""
    words = set(re.findall(r"\w+", text)) if imports else set()
    kept: list[str] = []
    for node in _nodes(imports):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        names = set(_bound_by(node))
        if future or "*" in names or names & words:
            kept.append(ast.unparse(node) + "\n")
    return kept


def imports_for(names: Iterable[str]) -> list[str]:
    """Import statements for those names whose home is beyond doubt."""
    lines: list[str] = []
    for name in sorted(names):
        if name in _HOME:
            lines.append(f"from {_HOME[name]} import {name}\n")
        elif name in sys.stdlib_module_names and name not in ("datetime", "time", "copy", "array"):
            lines.append(f"import {name}\n")
    return lines
