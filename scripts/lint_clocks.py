"""Find tests that judge by the clock: python -m scripts.lint_clocks [FILE...]

A comparison with a reading of ``time`` fails on a busy machine without any fault in the code, and
a fixed sleep is either too short or wasted. Tests count instead (calls, reads, frames), use virtual
time (``tests.support.virtual_time``), or wait for a condition (``tests.support.waiting``).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
TRANSPARENT = {"abs", "float", "int", "max", "mean", "median", "min", "round", "sorted", "sum"}
"""Functions whose result is a time if an argument is one."""

HELPERS = {"tests/support/virtual_time.py", "tests/support/waiting.py"}
"""Where polling and passing of virtual time are implemented."""

ALLOWED: dict[str, str] = {}
"""``path::function``, and why neither a count nor a fake clock nor a condition will do there."""


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, function and fault of each place in ``path`` that depends on the clock."""
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_number(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for scope, name in _functions(tree, ""):
        times = _names_of_times(scope)
        for node in _own_nodes(scope):
            if isinstance(node, ast.Compare) and any(
                _is_time(side, times) for side in [node.left, *node.comparators]
            ):
                yield node.lineno, name, f"compares a clock: {ast.unparse(node)}"
            elif isinstance(node, ast.Call) and _is_fixed_sleep(node, constants):
                yield node.lineno, name, f"sleeps a fixed time: {ast.unparse(node)}"


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the module and each function in it with its name, methods of classes included."""
    yield node, prefix or "module"
    for child in ast.walk(node):
        if child is node or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if prefix == "":
            yield child, child.name


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope but those of functions inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from _own_nodes(child)


def _names_of_times(scope: ast.AST) -> set[str]:
    """Return the names that hold a reading of a clock, or what was computed from one."""
    times: set[str] = set()
    before = -1
    while before != len(times):
        before = len(times)
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=targets, value=value) if _is_time(value, times):
                    times |= {t.id for t in targets if isinstance(t, ast.Name)}
                case ast.AugAssign(target=ast.Name(id=name), value=value) if _is_time(value, times):
                    times.add(name)
                case ast.NamedExpr(target=ast.Name(id=name), value=value) if _is_time(value, times):
                    times.add(name)
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]
                ) if _is_time(value, times):
                    times.add(name)
    return times


def _is_time(node: ast.AST, times: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in times
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=attr)):
            return attr in CLOCKS
        case ast.Call(func=ast.Name(id=name), args=args):
            bare = name in CLOCKS - {"time"} and not args
            return bare or (name in TRANSPARENT and any(_is_time(each, times) for each in args))
        case ast.Attribute(attr="elapsed"):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="elapsed"))):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_time(left, times) or _is_time(right, times)
        case ast.Subscript(value=value) | ast.Await(value=value) | ast.NamedExpr(value=value):
            return _is_time(value, times)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return any(_is_time(each, times) for each in elements)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return _is_time(element, times)
    return False


def _is_fixed_sleep(node: ast.Call, constants: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[length, *_]):
            named = isinstance(length, ast.Name) and length.id in constants
            return named or _is_number(length)
    return False


def _is_number(node: ast.AST | None) -> bool:
    """Whether it is a number other than 0, or computed from numbers; ``sleep(0)`` only yields."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return bool(value)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def main(arguments: list[str]) -> int:
    paths = [Path(each).resolve() for each in arguments] or sorted((ROOT / "tests").rglob("*.py"))
    failed, unused = False, set() if arguments else set(ALLOWED)
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if name in HELPERS or "node_modules" in path.parts:
            continue
        for line, function, fault in findings(path):
            place = f"{name}::{function}"
            unused.discard(place)
            if place not in ALLOWED:
                failed = True
                print(f"{name}:{line}: {function} {fault}")
    for place in sorted(unused):
        failed = True
        print(f"scripts/lint_clocks.py: nothing to allow any more at {place}")
    if failed:
        print("Count calls, use tests.support.virtual_time, or wait with tests.support.waiting.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
