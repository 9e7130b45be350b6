"""C and C++: the file is included into the program, so that static functions can be called too."""

from __future__ import annotations

from bench.edit_sets.running import COMPILE_SECONDS, RUN_SECONDS, execute, tool
from bench.edit_sets.workspace import Workspace

__all__ = ["builds", "run"]

_COMPILERS = {"c": ("cc", "-std=gnu11", "c"), "cpp": ("c++", "-std=gnu++17", "c++")}


def builds(work: Workspace) -> str | None:
    command = [*_compiler(work), "-fsyntax-only", str(work.file)]
    return execute(command, work.folder, COMPILE_SECONDS)


def run(work: Workspace, program: str) -> str | None:
    suffix = {"c": ".c", "cpp": ".cpp"}[work.task.language]
    source, binary = work.folder / f"edit_check{suffix}", work.folder / "edit_check"
    source.write_text(
        f'#define main main_of_the_file\n#include "{work.file}"\n#undef main\n'
        f'#undef NDEBUG\n#include <assert.h>\n#line 1 "check"\n{program}\n',
        "utf-8",
    )
    others = [str(work.root / path) for path in work.build.sources if path != work.task.file]
    command = [*_compiler(work), "-o", str(binary), str(source), *others, "-lm", "-pthread"]
    failed = execute(command, work.folder, COMPILE_SECONDS)
    return failed or execute([binary], work.folder, RUN_SECONDS)


def _compiler(work: Workspace) -> list[str]:
    name, standard, language = _COMPILERS[work.task.language]
    folders = [work.file.parent, *(work.root / path for path in work.build.include)]
    includes = [f"-I{folder}" for folder in folders]
    return [tool(name), standard, "-w", "-x", language, *includes, *work.build.flags]
