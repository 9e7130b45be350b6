"""Headers of the C and C++ standard libraries, by the names they are included for.

A small model includes what it has often seen included, and forgets what it uses. Only names with
one home are listed; a header that is not here is left as it came.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vivace.edits.importing.standard import standard

__all__ = ["forgotten", "used"]

_HEADERS = {
    "algorithm": "all_of any_of count_if find_if max_element min_element none_of nth_element "
    "partial_sort remove_if sort stable_sort transform clamp binary_search lower_bound upper_bound",
    "cassert": "assert",
    "chrono": "chrono",
    "functional": "bind function greater less plus",
    "iostream": "cerr cin clog cout endl",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex scoped_lock unique_lock",
    "numeric": "accumulate inner_product iota partial_sum reduce",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "set": "multiset set",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument length_error logic_error out_of_range runtime_error",
    "string_view": "string_view",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "variant": "variant visit",
    "vector": "vector",
    "assert.h": "assert",
    "ctype.h": "isalnum isalpha isdigit islower isspace isupper tolower toupper",
    "errno.h": "errno",
    "limits.h": "CHAR_BIT INT_MAX INT_MIN LONG_MAX LONG_MIN SIZE_MAX UINT_MAX",
    "math.h": "ceil cos exp fabs floor log pow round sin sqrt",
    "stdbool.h": "bool false true",
    "stdio.h": "FILE fclose fgets fopen fprintf fputs getchar perror printf putchar puts scanf "
    "snprintf sprintf stderr stdin stdout",
    "string.h": "memcmp memcpy memmove memset strcat strchr strcmp strcpy strdup strlen strncmp "
    "strncpy strstr strtok",
}
_HOME = {name: home for home, names in _HEADERS.items() for name in names.split()}
_INCLUDE = re.compile(r"#\s*include\s*<([^>]+)>")
_STANDARD = re.compile(r"\bstd::(\w+)")


def used(includes: Sequence[str], text: str) -> list[str]:
    """Those of the lines that this text has a use for, as far as we can tell."""
    words = set(re.findall(r"\w+", text))
    kept: list[str] = []
    for line in includes:
        header = _INCLUDE.search(line)
        names = _HEADERS.get(header[1], "").split() if header else []
        if not names or not words.isdisjoint(names):
            kept.append(line)
    return kept


def forgotten(before: str, after: str) -> list[str]:
    """Headers for the ``std::`` names that are new in this text."""
    new = set(_STANDARD.findall(after)) - set(_STANDARD.findall(before))
    homes = {_HOME.get(name) or standard("cpp").home(name) for name in new} - {None}
    return [f"#include <{home}>\n" for home in sorted(filter(None, homes))]
