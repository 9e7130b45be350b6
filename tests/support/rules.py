"""Two small rules and a project that they find something in."""

from __future__ import annotations

from pathlib import Path

__all__ = ["RULES", "SHELL", "YAML", "write"]

RULES = """\
id: test-shell
language: python
severity: error
message: A shell reads $COMMAND.
note: Give a list instead.
rule: {pattern: os.system($COMMAND)}
metadata: {cwe: 78}
---
id: test-yaml
language: python
severity: warning
message: This makes any object.
note: Read plain values.
rule: {pattern: yaml.load($FILE)}
fix: yaml.safe_load($FILE)
metadata: {cwe: 502}
---
id: test-nan
language: python
severity: info
message: This is never true.
rule: {pattern: $A == nan}
metadata: {kind: bug}
"""
SHELL = "import os\n\n\ndef show(name):\n    os.system('ls ' + name)\n"
YAML = "import yaml\n\n\ndef load(file):\n    return yaml.load(file)\n"


def write(root: Path, **files: str) -> None:
    """Python files, by their names without the ending; ``__`` divides folders."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
