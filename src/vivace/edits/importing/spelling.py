"""How a file writes the import of a name that another file of its project exports.

In the file's own style as far as it shows one. None where the import would not work: a module that
comes back to the file, a package for another one's internals, a private module.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import takewhile

from vivace.edits.importing.project import Modules, folder_of
from vivace.syntax.exports import Exports, exports_of
from vivace.syntax.imported import Imported
from vivace.syntax.source import Source

__all__ = ["ScriptStyle", "go_package", "import_as", "import_from", "is_included"]

_REQUIRE = re.compile(r"\brequire\(\s*(['\"])")
_IMPORT = re.compile(r"^import\b[^'\"]*(['\"])([^'\"\n]*)['\"](;?)", re.MULTILINE)
_RELATIVE = re.compile(r"""(?:from|require\()\s*['"]\.[^'"\n]*?(\.[cm]?[jt]sx?)?['"]""")
_APART = re.compile(r"/(testdata|vendor|_[^/]*)/")
"""Folders that Go does not look into."""
_RELATIVE_PYTHON = re.compile(r"^from \.", re.MULTILINE)


def import_from(modules: Modules, home: str, name: str, source: Source) -> str | None:
    """The line that imports a name from a file."""
    write = _WRITERS.get(source.language.name) if source.language else None
    return write(modules, home, name, source) if write else None


def import_as(modules: Modules, custom: Imported, source: Source) -> str | None:
    """The line that imports a name as other files do."""
    name, module, member = custom.name, custom.module, custom.member
    renamed = f" as {name}" if name != (member or module).rpartition("::")[2] else ""
    match source.language.name if source.language else "":
        case "python":
            head = f"from {module} import {member}" if member else f"import {module}"
            return None if _comes_back(modules, custom) else f"{head}{renamed}\n"
        case "java":
            return f"import {'static ' if member else ''}{module};\n"
        case "rust":
            crate = modules.project.manifest("Cargo.toml", modules.path)
            apart = crate is None or _rust_path(crate.folder, modules.path) is None
            if apart and module.startswith("crate::"):
                return None  # an example or a test is a crate of its own
            return f"use {module}{renamed};\n"
        case "go":
            return f'import {member + " " if member else ""}"{module}"\n'
        case _:
            return ScriptStyle(source, path=modules.path).imported(custom)


# -- Python ---------------------------------------------------------------------------------------


def _python(modules: Modules, home: str, name: str, source: Source) -> str | None:
    root = modules.root_of(home)
    if root not in modules.roots() or (not root and modules.root_of(modules.path)):
        return None
    if modules.path in modules.reaches(home, lambda path: _imported(modules, path)):
        return None  # it would import itself
    module = _dotted(root, home)
    own = _dotted(root, modules.path).split(".") if modules.root_of(modules.path) == root else []
    if _RELATIVE_PYTHON.search(source.text) and own and module.split(".")[0] == own[0]:
        inside = own if modules.path.endswith("/__init__.py") else own[:-1]
        pairs = zip(inside, module.split("."), strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        dots = "." * (len(inside) - shared + 1)
        module = dots + ".".join(module.split(".")[shared:])
    return f"from {module} import {name}\n"


def _comes_back(modules: Modules, custom: Imported) -> bool:
    """Whether a module of the project imports this one."""
    inner = custom.module.replace(".", "/")
    ends = (f"{inner}.py", f"{inner}/__init__.py")
    files = [posixpath.join(root, end) for root in modules.roots() for end in ends]
    own = [each for each in files if each in modules.project.files]
    return any(
        modules.path in modules.reaches(each, lambda path: _imported(modules, path)) for each in own
    )


def _dotted(root: str, path: str) -> str:
    inner = posixpath.splitext(path)[0][len(root) + 1 if root else 0 :]
    return inner.removesuffix("/__init__").replace("/", ".")


def _imported(modules: Modules, path: str) -> Iterator[str]:
    """The files of the project that a Python file imports when it is imported."""
    exports = modules.project.files.get(path, Exports())
    here = Modules(modules.project, path)
    for module in exports.includes:
        name = module.lstrip(".")
        inner = name.replace(".", "/")
        folder = folder_of(path)
        for _ in range(len(module) - len(name) - 1):
            folder = folder_of(folder)
        roots = [folder] if module != name else here.roots()
        ends = (f"{inner}.py", f"{inner}/__init__.py") if inner else ("__init__.py",)
        yield from (posixpath.join(root, end) for root in roots for end in ends)


# -- scripts --------------------------------------------------------------------------------------


class ScriptStyle:
    """How a script imports: by ``require`` or ``import``, in which quotes, with which endings."""

    def __init__(self, source: Source, *, path: str = "") -> None:
        imported, required = _IMPORT.search(source.text), _REQUIRE.search(source.text)
        typed = source.is_in("typescript", "tsx")
        common = imported is None and not re.search(r"^export\b", source.text, re.MULTILINE)
        self.requires = common and not path.endswith(".mjs") and (required is not None or not typed)
        quoted = imported or required
        self.quote = quoted[1] if quoted else '"'
        ended = ";\n" in source.text or "\n" not in source.text
        self.end = imported[3] if imported else ";" if ended else ""
        self.star = typed  # which needs no compiler option

    def members(self, names: str, module: str) -> str:
        if self.requires:
            return f"const {{ {names} }} = require({self._quoted(module)}){self.end}\n"
        return f"import {{ {names} }} from {self._quoted(module)}{self.end}\n"

    def whole(self, name: str, module: str, *, builtin: bool = False) -> str:
        """What a module exports without a name; of one of node's, all of it."""
        if self.requires:
            return f"const {name} = require({self._quoted(module)}){self.end}\n"
        named = f"* as {name}" if builtin and self.star else name
        return f"import {named} from {self._quoted(module)}{self.end}\n"

    def imported(self, custom: Imported) -> str:
        """As another file imports it."""
        name, module, member = custom.name, custom.module, custom.member
        if member in ("", "*"):
            named = f"* as {name}" if member else name
            return self.whole(name if self.requires else named, module)
        between = ": " if self.requires else " as "
        return self.members(member if member == name else f"{member}{between}{name}", module)

    def _quoted(self, module: str) -> str:
        return f"{self.quote}{module}{self.quote}"


def _script(modules: Modules, home: str, name: str, source: Source) -> str | None:
    packages = [modules.project.manifest("package.json", each) for each in (home, modules.path)]
    if packages[0] != packages[1]:
        return None  # how one package names another is not for us to say
    style = ScriptStyle(source, path=modules.path)
    module = posixpath.relpath(home, folder_of(modules.path) or ".")
    stem, suffix = posixpath.splitext(module)
    written = [each[1] for each in _RELATIVE.finditer(source.text)]
    native = modules.path.endswith(".mjs") or (not written and suffix == ".mjs")
    if native or any(written):
        module = stem + (suffix if suffix.endswith("js") else written[-1] or ".js")
    else:
        module = stem.removesuffix("/index") if stem != "index" else "./index"
    module = module if module.startswith(".") else f"./{module}"
    exports = modules.project.files[home]
    if name == exports.default:
        return style.whole(name, module)
    return style.members(name, module)


# -- Go, Java, Rust -------------------------------------------------------------------------------


def go_package(modules: Modules, package: str) -> str | None:
    """The path by which the project's only package of this name is imported."""
    if not modules.complete:
        return None
    found = {
        folder
        for folder, files in modules.project.folders.items()
        if folder != folder_of(modules.path)
        and not _APART.search(f"/{folder}/")
        and any(modules.project.files[each].package == package for each in files)
    }
    if len(found) != 1 or package == "main":
        return None
    [folder] = found
    manifest = modules.project.manifest("go.mod", modules.path)
    if manifest is None or manifest != modules.project.manifest("go.mod", f"{folder}/x.go"):
        return None
    above, internal, _ = f"/{folder}/".partition("/internal/")
    if internal and not f"/{modules.path}".startswith(above + "/"):
        return None
    inner = folder[len(manifest.folder) :].strip("/")
    path = posixpath.join(manifest.name, inner) if inner else manifest.name
    own = folder_of(modules.path)[len(manifest.folder) :].strip("/")
    here = posixpath.join(manifest.name, own) if own else manifest.name
    return None if here in _go_imports(modules, manifest.name, manifest.folder, path) else path


def _go_imports(modules: Modules, module: str, root: str, path: str) -> set[str]:
    """All packages of the project that a package imports, by their paths."""

    def step(each: str) -> Iterator[str]:
        folder = posixpath.join(root, each[len(module) :].strip("/")).rstrip("/")
        for file in modules.project.folders.get(folder, ()):
            for imported in modules.project.files[file].includes:
                if imported == module or imported.startswith(module + "/"):
                    yield imported

    return modules.reaches(path, step)


def _java(modules: Modules, home: str, name: str, source: Source) -> str | None:
    package = modules.project.files[home].package
    return f"import {package}.{name};\n" if package else None


def _rust(modules: Modules, home: str, name: str, source: Source) -> str | None:
    crate = modules.project.manifest("Cargo.toml", modules.path)
    if crate is None or crate != modules.project.manifest("Cargo.toml", home):
        return None
    inside = [_rust_path(crate.folder, each) for each in (home, modules.path)]
    there, here = inside
    if there is None or here is None:
        return None
    for depth, segment in enumerate(there):
        above = there[:depth]
        if here[:depth] == above:
            continue  # a module sees all that stands in those it is in
        if segment not in _rust_module(modules, crate.folder, above).names:
            return None
    return f"use {'::'.join(['crate', *there, name])};\n"


def _rust_path(crate: str, path: str) -> list[str] | None:
    """The modules that lead to a file, from the root of its crate."""
    sources = posixpath.join(crate, "src") + "/"
    if not path.startswith(sources) or path.endswith("/main.rs"):
        return None
    parts = path[len(sources) : -len(".rs")].split("/")
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def _rust_module(modules: Modules, crate: str, parts: list[str]) -> Exports:
    base = posixpath.join(crate, "src", *parts)
    for each in (f"{base}/lib.rs",) if not parts else (f"{base}.rs", f"{base}/mod.rs"):
        if each in modules.project.files:
            return modules.project.files[each]
    return Exports()


# -- C and C++ ------------------------------------------------------------------------------------


def is_included(modules: Modules, header: str, source: Source) -> bool:
    """Whether a file has a header already, in whatever way."""
    own = exports_of(source).includes
    found = modules.reaches("", lambda path: _included(modules, path, own))
    return header in found


def _included(modules: Modules, path: str, own: tuple[str, ...]) -> Iterator[str]:
    includes = modules.project.files[path].includes if path else own
    for written in includes:
        name = written.strip('"<>')
        near = posixpath.normpath(posixpath.join(folder_of(path or modules.path), name))
        if near in modules.project.files:
            yield near
        else:
            yield from (each for each in modules.project.files if each.endswith("/" + name))


def _header(modules: Modules, home: str, name: str, source: Source) -> str | None:
    """As others include it; in its own folder by its name."""
    if not posixpath.splitext(home)[1].startswith(".h") or is_included(modules, home, source):
        return None
    if folder_of(home) == folder_of(modules.path):
        return f'#include "{posixpath.basename(home)}"\n'
    ways = {
        written
        for exports in modules.project.files.values()
        for written in exports.includes
        if f"/{home}".endswith("/" + written.strip('"<>'))
    }
    return f"#include {ways.pop()}\n" if len(ways) == 1 else None


_WRITERS: dict[str, Callable[[Modules, str, str, Source], str | None]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "java": _java,
    "rust": _rust,
    "c": _header,
    "cpp": _header,
}
