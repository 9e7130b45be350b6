"""Small files with a known fault, and the same without it: FORMAT.md says how to write them.

Rules are made with the pairs of ``tuning`` in sight. What they are worth is measured on others,
written apart by people who know this format and none of the rules.
"""

from __future__ import annotations

from bench.finding_sets.reader import LANGUAGES, BadSet, Language, Pair, read

__all__ = ["LANGUAGES", "BadSet", "Language", "Pair", "read"]
