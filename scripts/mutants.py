"""Put small faults into the code, one at a time, and see which suite of tests finds them.

``scripts/mutants`` describes the options. Coverage with the test as its context says which tests
can find a fault: those that reach its line, also from a process that they start.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "mutants"
PYTHON = ROOT / ".venv" / "bin" / "python"
PACKAGES = ("conversation", "scheduling", "gateway", "store")
FIRST_TESTS = 40
"""Tests in the first of two tries, those whose name is nearest: they find most faults."""
TEST_TIMEOUT_S = 60
"""A test that takes longer hangs, which counts as found."""

_COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*"}


@dataclass(frozen=True)
class Mutant:
    """Replacement in a file: the bytes from ``start`` to ``end`` become ``text``."""

    path: str
    line: int
    start: int
    end: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}:{self.start}:{self.text}"


# -- faults ----------------------------------------------------------------------------------------


def mutants(path: Path, name: str) -> Iterator[Mutant]:
    """Yield every fault that can be put into the file at ``path``."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + column

    def changed(node: ast.expr | ast.stmt, text: str) -> Mutant:
        end = offset(node.end_lineno or 0, node.end_col_offset or 0)
        return Mutant(name, node.lineno, offset(node.lineno, node.col_offset), end, text)

    for node in _executed(ast.parse(source)):
        yield from (changed(at, text) for at, text in _faults(node))


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below ``node`` that run in a function: no annotations, logs or assertions."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for statement in child.body:
                    yield statement
                    yield from _inside(statement)
            case ast.ClassDef():
                yield from _executed(child)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _says_only(child):
                yield child
                yield from _inside(child)


def _says_only(node: ast.AST) -> bool:
    """Whether a node is an assertion, a log line, a message or a docstring."""
    match node:
        case ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in ("log", "_log", "logger")
    return False


def _faults(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:  # noqa: C901 - a table
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            other = _COMPARISONS[type(operator)]
            yield node, f"{ast.unparse(left)} {other} {ast.unparse(right)}"
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield node, "(" + word.join(f"({ast.unparse(each)})" for each in values) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            if not any(isinstance(each, ast.JoinedStr | ast.Constant) and not _is_number(each)
                       for each in (left, right)):  # fmt: skip
                other = _ARITHMETIC[type(operator)]
                yield node, f"(({ast.unparse(left)}) {other} ({ast.unparse(right)}))"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, f"{value + 1}"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.Constant):
                yield test, f"(not ({ast.unparse(test)}))"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def sample(size: int, seed: int, second: Tree) -> list[Mutant]:
    """Choose ``size`` faults in files that are the same in both trees."""
    found: list[Mutant] = []
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "vivace" / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if (second.folder / name).is_file():
                if (second.folder / name).read_bytes() == path.read_bytes():
                    found += mutants(path, name)
                else:
                    print(f"left out, as it differs there: {name}", flush=True)
    # vivace: ignore[python-weak-random] a seeded sample
    return random.Random(seed).sample(found, min(size, len(found)))


# -- suites ----------------------------------------------------------------------------------------


class Tree:
    """A work tree of one revision, and which of its tests reach which line of its code."""

    def __init__(self, revision: str, options: Sequence[str]) -> None:
        commit = _git("rev-parse", "--short", revision)
        self.name = f"{commit}{''.join(options)}"
        self.options = list(options)
        self.commit = commit
        self.folder = KEPT / f"tree-{self.name}"
        _work_tree(self.folder, commit)
        self._reached: dict[str, dict[int, list[str]]] = {}

    @property
    def _map(self) -> Path:
        return KEPT / f"map-{self.name}.coverage"

    def learn(self, jobs: int) -> None:
        """Run all tests once with coverage, unless that is known."""
        if self._map.exists():
            return
        print(f"running {self.name} once, to learn which test reaches which line", flush=True)
        with tempfile.TemporaryDirectory() as parts:
            settings = Path(parts, "coveragerc")
            settings.write_text(
                f"[run]\nsource = {self.folder}/src\nparallel = true\nsigterm = true\n"
                f"data_file = {parts}/.coverage\ncontext = ${{PYTEST_CURRENT_TEST-}}\n"
                "disable_warnings = no-data-collected,module-not-imported,dynamic-conflict\n"
            )
            Path(parts, "sitecustomize.py").write_text(
                "import coverage; coverage.process_startup()\n"
            )
            environment = _environment(self.folder) | {"COVERAGE_PROCESS_START": str(settings)}
            environment["PYTHONPATH"] += f"{os.pathsep}{parts}"
            command = [
                str(PYTHON),
                "-m",
                "pytest",
                *self.options,
                "-n",
                str(jobs),
                "--dist",
                "loadfile",
            ]
            command += ["-o", "timeout=900", "--cov", f"--cov-config={settings}"]
            command += ["--cov-context=test", "--cov-report="]
            subprocess.run(command, cwd=self.folder, env=environment, check=False)
            Path(parts, ".coverage").rename(self._map)

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach its line: first those of the file named like its module,
        then those that reach the least besides."""
        if not self._reached:
            self._read_map()
        tests = self._reached.get(mutant.path, {}).get(mutant.line, [])
        module = Path(mutant.path).stem
        return sorted(
            tests,
            key=lambda test: (f"test_{module}.py" not in test, self._breadth[test.split("::")[0]]),
        )

    def _read_map(self) -> None:
        data = CoverageData(str(self._map))
        data.read()
        self._breadth: Counter[str] = Counter()
        for measured in data.measured_files():
            name = "src/vivace/" + measured.rpartition("/src/vivace/")[2]
            lines = {
                line: sorted({test for context in contexts if (test := node_id(context))})
                for line, contexts in data.contexts_by_lineno(measured).items()
            }
            self._reached[name] = lines
            for tests in lines.values():
                self._breadth.update({test.split("::")[0] for test in tests})


def node_id(context: str) -> str:
    """Return the node id that a context of coverage names, or its file where a process was
    started for several tests: ``a::b|run``, ``a::b (call)``, ``a::b (setup)``."""
    test = context.rpartition("|")[0] or context
    if test.endswith(" (setup)"):
        return test.split("::")[0]
    return test.removesuffix(" (call)").removesuffix(" (teardown)")


def _work_tree(folder: Path, commit: str) -> None:
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _git("worktree", "prune")
        _git("worktree", "add", "--quiet", "--detach", "--force", str(folder), commit)
        (folder / ".venv").symlink_to(ROOT / ".venv")
        with contextlib.suppress(FileNotFoundError):
            modules = (ROOT / "tests/clients/node_modules").resolve(strict=True)
            (folder / "tests/clients/node_modules").symlink_to(modules)


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _environment(folder: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a fault may be of the same size and second
    return environment


# -- judging ---------------------------------------------------------------------------------------


def judge(tree: Tree, folder: Path, mutant: Mutant, seconds: float) -> str:
    """Return which test of ``tree`` finds the fault in the copy at ``folder``, or why none did."""
    tests = tree.tests_for(mutant)
    if not tests:
        return "not reached"
    # vivace: ignore[python-path-from-parameter] a file of this repository
    path = folder / mutant.path
    before = path.read_bytes()
    path.write_bytes(before[: mutant.start] + mutant.text.encode() + before[mutant.end :])
    try:
        for part in (tests[:FIRST_TESTS], tests[FIRST_TESTS:]):
            if part and (found := _run(tree, folder, part, seconds)):
                return f"found by {found}"
    finally:
        path.write_bytes(before)
    return "survived"


def _run(tree: Tree, folder: Path, tests: Sequence[str], seconds: float) -> str:
    """Return the first test that fails within ``seconds``; "" if none does."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(tests))
        names.flush()
        command = [str(PYTHON), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += [*tree.options, "-o", f"timeout={TEST_TIMEOUT_S}", f"@{names.name}"]
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(folder), text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode == 0:
        return ""
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else "an error of the whole run"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", metavar="REV", help="all tests of this revision")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="for each half of a suite")
    given = parser.parse_args()

    first = Tree("HEAD", [])
    second = Tree(given.against, []) if given.against else Tree("HEAD", ["--all"])
    for tree in (first, second):
        tree.learn(2 * given.jobs)
    chosen = sample(given.sample, given.seed, second)
    results = KEPT / f"results-{first.name}-{second.name}-{given.seed}.jsonl"
    known = {}
    if results.exists():
        known = {row["name"]: row for row in map(json.loads, results.read_text().splitlines())}

    copies: Queue[dict[str, Path]] = Queue()
    for job in range(given.jobs):
        folders = {tree.name: KEPT / f"copy-{job}-{tree.name}" for tree in (first, second)}
        for tree in (first, second):
            _work_tree(folders[tree.name], tree.commit)
        copies.put(folders)

    def both(mutant: Mutant) -> None:
        if mutant.name in known:
            return
        folders = copies.get()
        try:
            row = {"name": mutant.name, **asdict(mutant), "change": "", "all": ""}
            row["change"] = judge(first, folders[first.name], mutant, given.seconds)
            row["all"] = row["change"]
            if not row["change"].startswith("found"):
                row["all"] = judge(second, folders[second.name], mutant, given.seconds)
        finally:
            copies.put(folders)
        known[mutant.name] = row
        with results.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{len(known)}: {mutant.name}: {row['change']} | {row['all']}", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(both, chosen))
    return report([known[mutant.name] for mutant in chosen])


def report(rows: Sequence[dict[str, str]]) -> int:
    """Print how many faults each suite finds, and those that only the second does."""
    change = [row for row in rows if row["change"].startswith("found")]
    everything = [row for row in rows if row["all"].startswith("found")]
    for row in everything:
        if row not in change:
            print(f"only by all tests: {row['name']}: {row['all']}")
    for package in PACKAGES:
        of = [row for row in rows if row["path"].startswith(f"src/vivace/{package}/")]
        print(f"{package}: {sum(row in change for row in of)} of {len(of)} found per change, "
              f"{sum(row in everything for row in of)} by all tests")  # fmt: skip
    print(f"all: {len(change)} of {len(rows)} found per change, {len(everything)} by all tests: "
          f"{100 * len(change) / max(1, len(everything)):.1f}%")  # fmt: skip
    return int(len(change) < 0.95 * len(everything))


if __name__ == "__main__":
    sys.exit(main())
