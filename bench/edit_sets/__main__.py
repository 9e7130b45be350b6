"""Validates, judges, seals and opens sets of edit tasks, and brings their packages."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from bench.edit_sets.errors import BadDiff, BadSet, NoPackage, NoTool
from bench.edit_sets.judge import judge, sees
from bench.edit_sets.languages import missing
from bench.edit_sets.packages import Form, bring, discover, unpacked
from bench.edit_sets.reader import EditSet, read, read_all
from bench.edit_sets.schema import Subject, Task
from bench.edit_sets.seal import open_sealed, seal
from bench.edit_sets.shares import shares
from bench.edit_sets.validate import validate

_LICENCE = re.compile(r"^(licen[cs]e|copying|copyright|unlicense)", re.IGNORECASE)


def main(argv: Sequence[str]) -> int:
    args = _parser().parse_args(argv)
    try:
        return int(args.command(args))
    except (BadSet, BadDiff, NoPackage, NoTool, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _validate(args: argparse.Namespace) -> int:
    sets = read_all(args.files)
    lacking = _missing_tools(sets)
    chosen = [task for each in sets for task in each.tasks if _chosen(args, task)]
    width = max((len(task.id) for task in chosen), default=0)
    failed = 0
    for each in sets:
        for row in validate(
            each, lambda task: _chosen(args, task) and task.language not in lacking
        ):
            state = "FAILED" if row.faults else "ok" if row.compiles else "ok, not compiled"
            told = f"{row.task.language:<11}{row.task.expect:<5} {row.lines:>4} lines  {state}"
            print(f"{row.task.id:<{width}}  {told}", flush=True)
            for fault in row.faults:
                print("    " + fault.replace("\n", "\n      "))
            failed += bool(row.faults)
    skipped = [task.id for task in chosen if task.language in lacking]
    for line in lacking.values():
        print(f"not tried: {line}", file=sys.stderr)
    print(f"{len(chosen)} tasks, {failed} failed, {len(skipped)} not tried")
    if args.task is None:
        print("\n".join(shares([task for each in sets for task in each.tasks])))
    return 1 if failed or skipped else 0


def _chosen(args: argparse.Namespace, task: Task) -> bool:
    return args.task is None or args.task in task.id


def _missing_tools(sets: Sequence[EditSet]) -> dict[str, str]:
    languages = {task.language for each in sets for task in each.tasks}
    found = {language: missing(language) for language in languages}
    return {language: told for language, told in found.items() if told is not None}


def _judge(args: argparse.Namespace) -> int:
    package, task = _one(args)
    verdict = judge(package, task, args.edited.read_bytes().decode())
    print(f"{verdict.outcome}: {verdict.why}" if verdict.why else verdict.outcome)
    return 0 if verdict.outcome == "right" else 1


def _visible(args: argparse.Namespace) -> int:
    package, task = _one(args)
    if task.visible is None:
        raise BadSet(f"{args.file}: task {task.id}: has no visible check")
    said = sees(package, task, args.edited.read_bytes().decode())
    print(said or "passed")
    return 1 if said else 0


def _one(args: argparse.Namespace) -> tuple[Subject, Task]:
    edits = read(args.file)
    for task in edits.tasks:
        if task.id == args.task:
            return edits.package, task
    raise BadSet(f"{args.file}: has no task {args.task}")


def _bring(args: argparse.Namespace) -> int:
    for edits in read_all(args.files):
        for package in (edits.package, *edits.package.needs):
            print(f"{bring(package)}\n  unpacked: {unpacked(package)}")
    return 0


def _seal(args: argparse.Namespace) -> int:
    read_all([args.folder])
    print(f"{seal(args.folder, args.target)}  {args.target}")
    return 0


def _open(args: argparse.Namespace) -> int:
    for path in open_sealed(args.sealed, args.sha256, args.folder):
        print(path)
    return 0


def _package(args: argparse.Namespace) -> int:
    """Prints what a file of tasks says of its package."""
    package = discover(args.form, args.name, args.version)
    folder = unpacked(package)
    print("format = 1\n\n[package]")
    for field in ("registry", "name", "version", "archive", "sha256"):
        print(f'{field} = "{getattr(package, field)}"')
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    licences = [path for path in files if _LICENCE.search(path.name)]
    print('licence = ""  # its SPDX name')
    for path in licences[:5]:
        print(f'licence_file = "{path.relative_to(folder)}"')
    print(f"\n# unpacked: {folder}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="edit-sets", description=__doc__)
    commands = parser.add_subparsers(required=True)

    one = commands.add_parser("package", help="find a package and print its [package] table")
    one.add_argument("form", choices=get_args(Form))
    one.add_argument("name")
    one.add_argument("version", nargs="?")
    one.set_defaults(command=_package)

    one = commands.add_parser("bring", help="bring and unpack the packages of these files")
    one.add_argument("files", nargs="+", type=Path, metavar="FILE")
    one.set_defaults(command=_bring)

    one = commands.add_parser("validate", help="try every task on its reference and wrong edits")
    one.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files or folders")
    one.add_argument("--task", help="only tasks whose id contains this")
    one.set_defaults(command=_validate)

    for name, command, told in (
        ("judge", _judge, "the verdict over an edited file"),
        ("visible", _visible, "only the check that a person would hand over"),
    ):
        one = commands.add_parser(name, help=told)
        one.add_argument("file", type=Path, metavar="FILE")
        one.add_argument("task", metavar="TASK")
        one.add_argument("edited", type=Path, metavar="EDITED")
        one.set_defaults(command=command)

    one = commands.add_parser("seal", help="pack a folder of tasks; prints the SHA-256")
    one.add_argument("folder", type=Path, metavar="FOLDER")
    one.add_argument("target", type=Path, metavar="SEALED")
    one.set_defaults(command=_seal)

    one = commands.add_parser("open", help="unpack a sealed file into a folder")
    one.add_argument("sealed", type=Path, metavar="SEALED")
    one.add_argument("sha256", metavar="SHA256")
    one.add_argument("folder", type=Path, metavar="FOLDER")
    one.set_defaults(command=_open)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
