"""How an optional part of Vivace is installed into where Vivace is.

By the packages that it consists of: who has no Vivace from a package index must not be told to get
one there, where the name may be somebody else's.
"""

from __future__ import annotations

import importlib.util
import re
import shlex

from vivace.interpreter import python_command

__all__ = ["how_to_install"]


def how_to_install(extra: str) -> str:
    """A command for a shell."""
    if importlib.util.find_spec("pip") is None:  # as in environments that uv made
        command = ["uv", "pip", "install", "--python", *python_command()[:1]]
    else:
        command = python_command("-m", "pip", "install")
    return shlex.join([*command, *_packages(extra)])


def _packages(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires  # slow, and hardly ever needed

    try:
        needs = [need.partition(";") for need in requires("vivace") or ()]
    except PackageNotFoundError:  # a checkout that is only on the path
        needs = []
    of_it = re.compile(rf"""extra == ['"]{re.escape(extra)}['"]""")
    found = [name.strip() for name, _, marker in needs if of_it.search(marker)]
    return found or [f".[{extra}]"]
