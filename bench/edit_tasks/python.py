"""Tasks on Python files."""

from __future__ import annotations

from bench.edit_tasks.checks import gone, has, has_node, lacks, lacks_node, runs
from bench.edit_tasks.task import Between, Everywhere, Replace, Task, Word

__all__ = ["TASKS"]

_CACHE = "ttl_cache.py"
_CONFIG = "config_reader.py"
_INVENTORY = "inventory.py"
_LOG = "log_summary.py"
_TEXT = "text_tools.py"
_JOBS = "job_queue.py"
_INTERVALS = "intervals.py"

_SAME = "def same(a, b): return (typing.get_origin(a), typing.get_args(a)) == (\n"
_SAME += "    typing.get_origin(b), typing.get_args(b)) and (typing.get_origin(a) or a == b)\n"

_TTL_CACHE = (
    Task(
        id="python-cache-rename-method",
        kind="rename",
        path=_CACHE,
        instruction="Rename the method `put` to `store` and update every call of it.",
        may_change=[Word("put")],
        reference=[Everywhere("put", "store")],
        wrong=[[Replace("def put(self", "def store(self")]],
        checks=[
            gone("put"),
            runs("c = warm(TtlCache(), [(1, 2)]); c.store(3, 4); assert c.get(3) == 4"),
        ],
    ),
    Task(
        id="python-cache-constant",
        kind="constant",
        path=_CACHE,
        instruction="Replace the magic number 300 in `TtlCache.__init__` with a module constant "
        "DEFAULT_TTL.",
        may_change=["TtlCache.__init__"],
        additions="anything",
        reference=[
            Replace("\n\nclass Entry", "\nDEFAULT_TTL = 300\n\n\nclass Entry"),
            Replace("else 300", "else DEFAULT_TTL"),
        ],
        wrong=[[Replace("else 300", "else DEFAULT_TTL")]],
        checks=[
            lacks("TtlCache", r"\b300\b"),
            has("TtlCache.__init__", r"\bDEFAULT_TTL\b"),
            runs("assert DEFAULT_TTL == TtlCache().ttl == 300 and TtlCache(ttl=0).ttl == 0"),
        ],
    ),
    Task(
        id="python-cache-boundary",
        kind="bug fix",
        path=_CACHE,
        instruction="Fix `is_expired`: an entry whose age is exactly the ttl has expired.",
        may_change=["Entry.is_expired"],
        reference=[Replace("created > ttl", "created >= ttl")],
        wrong=[[Replace("created > ttl", "created < ttl")]],
        checks=[
            runs(
                "e = Entry(1, 10)\n"
                "assert e.is_expired(15, 5) and e.is_expired(16, 5) and not e.is_expired(14, 5)"
            )
        ],
    ),
    Task(
        id="python-cache-guard",
        kind="guard clause",
        path=_CACHE,
        instruction="`hit_rate` divides by zero when nothing was looked up yet; return 0.0 then.",
        may_change=["TtlCache.hit_rate"],
        reference=[
            Replace(
                "        return self.hits / (self.hits + self.misses)\n",
                "        total = self.hits + self.misses\n"
                "        if total == 0:\n"
                "            return 0.0\n"
                "        return self.hits / total\n",
            )
        ],
        wrong=[[Replace("(self.hits + self.misses)", "(self.hits + self.misses + 1)")]],
        checks=[
            runs(
                "c = TtlCache(); assert c.hit_rate() == 0\n"
                "c.put(1, 1); c.get(1); c.get(2); assert c.hit_rate() == 0.5\n"
                "c = TtlCache(); c.get(2); assert c.hit_rate() == 0"
            )
        ],
    ),
    Task(
        id="python-cache-docstring",
        kind="documentation",
        path=_CACHE,
        instruction="Add a one-line docstring to `evict_oldest`.",
        may_change=["TtlCache.evict_oldest"],
        reference=[
            Replace(
                "        key, _ = self._entries",
                '        """Drop the entry that was used least recently; returns its key."""\n'
                "        key, _ = self._entries",
            )
        ],
        wrong=[
            [Replace("        key, _ = self", "        # The oldest goes.\n        key, _ = self")]
        ],
        checks=[
            runs(
                "assert len(TtlCache.evict_oldest.__doc__.split()) > 2\n"
                "c = warm(TtlCache(), [(1, 2), (3, 4)])\n"
                "assert c.evict_oldest() == 1 and len(c) == 1"
            )
        ],
    ),
    Task(
        id="python-cache-comprehension",
        kind="comprehension",
        path=_CACHE,
        instruction="Build this list with a list comprehension.",
        selected=Between("expired = []", "expired.append(key)"),
        may_change=[Between("expired = []", "expired.append(key)")],
        reference=[
            Replace(
                "        expired = []\n"
                "        for key, entry in self._entries.items():\n"
                "            if entry.is_expired(now, self.ttl):\n"
                "                expired.append(key)\n",
                "        expired = [\n"
                "            key for key, entry in self._entries.items() "
                "if entry.is_expired(now, self.ttl)\n"
                "        ]\n",
            )
        ],
        wrong=[
            [
                Replace("expired = []", "expired = [key for key in self._entries]"),
                Replace("                expired.append(key)\n", "                pass\n"),
            ]
        ],
        checks=[
            has_node("TtlCache.purge", "list_comprehension"),
            lacks("TtlCache.purge", r"append"),
            runs(
                "now = [0]; c = TtlCache(ttl=5, clock=lambda: now[0]); c.put(1, 1)\n"
                "now[0] = 9; c.put(2, 2); assert c.purge() == 1 and len(c) == 1 and c.get(2) == 2"
            ),
        ],
    ),
)

_CONFIG_READER = (
    Task(
        id="python-config-with",
        kind="with statement",
        path=_CONFIG,
        instruction="Use a with statement in `read_config` so that the file is always closed.",
        may_change=["read_config"],
        reference=[
            Replace(
                '    file = open(path, encoding="utf-8")\n'
                "    sections = parse(file)\n"
                "    file.close()\n"
                "    return sections\n",
                '    with open(path, encoding="utf-8") as file:\n        return parse(file)\n',
            )
        ],
        wrong=[
            [
                Replace(
                    "    sections = parse(file)\n    file.close()\n    return sections\n",
                    "    with file:\n        pass\n    return parse(file)\n",
                )
            ]
        ],
        checks=[
            has_node("read_config", "with_statement"),
            lacks("read_config", r"\.close\("),
            runs(
                "open('a.ini', 'w').write('[s]\\na = 1\\n')\n"
                "assert read_config('a.ini') == {'': {}, 's': {'a': '1'}}"
            ),
        ],
    ),
    Task(
        id="python-config-hints",
        kind="type hints",
        path=_CONFIG,
        instruction="Add type hints to `parse_line`: it takes a string and returns a tuple of two "
        "strings or None.",
        may_change=["parse_line"],
        additions="imports",
        reference=[
            Replace("parse_line(line):", "parse_line(line: str) -> tuple[str, str] | None:")
        ],
        wrong=[[Replace("parse_line(line):", "parse_line(line: str) -> str:")]],
        checks=[
            runs(
                _SAME + "hints = typing.get_type_hints(parse_line)\n"
                "assert hints['line'] is str\n"
                "made = typing.get_args(hints['return'])\n"
                "assert len(made) == 2 and type(None) in made\n"
                "[one] = [arg for arg in made if arg is not type(None)]\n"
                "assert same(one, tuple[str, str])\n"
                "assert parse_line('a = b # c') == ('a', 'b') and parse_line('# c') is None"
            )
        ],
    ),
    Task(
        id="python-config-value-error",
        kind="error handling",
        path=_CONFIG,
        instruction="Make `get_int` return the default when the value is not a number; catch only "
        "ValueError.",
        may_change=["get_int"],
        reference=[
            Replace(
                "    return int(value)\n",
                "    try:\n"
                "        return int(value)\n"
                "    except ValueError:\n"
                "        return default\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    return int(value)\n",
                    "    try:\n        return int(value)\n    except:\n        return default\n",
                )
            ],
            [
                Replace(
                    "    return int(value)\n",
                    "    try:\n"
                    "        return int(value)\n"
                    "    except ValueError:\n"
                    "        return 0\n",
                )
            ],
        ],
        checks=[
            has("get_int", r"except\s*\(?\s*ValueError\b"),
            lacks("get_int", r"except\s*(Exception)?\s*:"),
            runs(
                "s = {'a': {'x': '7', 'y': 'seven'}}\n"
                "assert get_int(s, 'a', 'x') == 7 and get_int(s, 'a', 'y', 3) == 3\n"
                "assert get_int(s, 'a', 'z', 4) == 4"
            ),
        ],
    ),
    Task(
        id="python-config-early-return",
        kind="early return",
        path=_CONFIG,
        instruction="Simplify `get_bool` with an early return instead of the variable `result`.",
        may_change=["get_bool"],
        reference=[
            Replace(
                "    if value:\n"
                '        result = value.lower() in ("1", "yes", "true", "on")\n'
                "    else:\n"
                "        result = default\n"
                "    return result\n",
                "    if not value:\n"
                "        return default\n"
                '    return value.lower() in ("1", "yes", "true", "on")\n',
            )
        ],
        wrong=[
            [
                Replace(
                    "    if value:\n"
                    '        result = value.lower() in ("1", "yes", "true", "on")\n'
                    "    else:\n"
                    "        result = default\n"
                    "    return result\n",
                    '    return value.lower() in ("1", "yes", "true", "on")\n',
                )
            ]
        ],
        checks=[
            lacks("get_bool", r"\bresult\b"),
            runs(
                "s = {'a': {'x': 'Yes', 'y': 'no'}}\n"
                "assert get_bool(s, 'a', 'x') is True and get_bool(s, 'a', 'y', True) is False\n"
                "assert get_bool(s, 'a', 'z', True) is True and get_bool(s, 'b', 'z') is False"
            ),
        ],
    ),
    Task(
        id="python-config-f-strings",
        kind="f-string",
        path=_CONFIG,
        instruction="Use f-strings in `write_config` instead of joining strings with +.",
        may_change=["write_config"],
        reference=[
            Replace('"[" + name + "]\\n"', 'f"[{name}]\\n"'),
            Replace('key + " = " + str(value) + "\\n"', 'f"{key} = {value}\\n"'),
        ],
        wrong=[[Replace('"[" + name + "]\\n"', 'f"[{name}]\\n"')]],
        checks=[
            lacks("write_config", r"\+"),
            has_node("write_config", "interpolation"),
            runs(
                "write_config('a.ini', {'': {'x': 1}, 's': {'a': 'b'}})\n"
                "assert open('a.ini').read() == 'x = 1\\n[s]\\na = b\\n'"
            ),
        ],
    ),
)

_SHOP = (
    Task(
        id="python-inventory-field",
        kind="add a field",
        path=_INVENTORY,
        instruction='Add a field `location` of type str with the default "main" to the dataclass '
        "`Item`.",
        may_change=["Item"],
        reference=[
            Replace(
                "    quantity: int = 0\n", '    quantity: int = 0\n    location: str = "main"\n'
            )
        ],
        wrong=[[Replace("    price: float\n", '    location: str = "main"\n    price: float\n')]],
        checks=[
            runs(
                "assert Item('a', 1.0) == Item('a', 1.0, 0, 'main')\n"
                "assert Item('a', 1.0, location='b').location == 'b'\n"
                "assert typing.get_type_hints(Item)['location'] is str"
            )
        ],
    ),
    Task(
        id="python-inventory-logging",
        kind="logging",
        path=_INVENTORY,
        instruction="In `remove`, log a warning with `logger` instead of printing.",
        may_change=["Inventory.remove"],
        reference=[
            Replace('print("out of stock: " + name)', 'logger.warning("out of stock: %s", name)')
        ],
        wrong=[[Replace('print("out of stock: " + name)', "pass")]],
        checks=[
            lacks("Inventory.remove", r"\bprint\b"),
            runs(
                "seen = []\n"
                "logger.warning = lambda text, *a: seen.append(text % a if a else text)\n"
                "i = load_inventory([('tea', 2, 3)])\n"
                "assert i.remove('tea') == 2 and seen == []\n"
                "assert i.remove('tea', 2) == 0 and len(seen) == 1 and 'tea' in seen[0]"
            ),
        ],
    ),
    Task(
        id="python-inventory-guard",
        kind="guard clause",
        path=_INVENTORY,
        instruction="Let `Inventory.add` raise a ValueError if the quantity is negative.",
        may_change=["Inventory.add"],
        reference=[
            Replace(
                "        if name in self.items:\n",
                "        if quantity < 0:\n"
                '            raise ValueError("quantity must not be negative")\n'
                "        if name in self.items:\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "        if name in self.items:\n",
                    "        if quantity <= 0:\n"
                    '            raise ValueError("quantity must be positive")\n'
                    "        if name in self.items:\n",
                )
            ]
        ],
        checks=[
            runs(
                "i = Inventory(); i.add('a', 2.0); i.add('a', 3.0, 0)\n"
                "assert i.items['a'] == Item('a', 3.0, 1)\n"
                "for name in 'ab':\n"
                "    try: i.add(name, 1.0, -1)\n"
                "    except ValueError: pass\n"
                "    else: raise AssertionError('no ValueError')\n"
                "assert i.items == {'a': Item('a', 3.0, 1)}"
            )
        ],
    ),
    Task(
        id="python-inventory-constant",
        kind="constant",
        path=_INVENTORY,
        instruction="Introduce a module constant TAX_FACTOR for the number 1.19 in "
        "`price_with_tax`.",
        may_change=["Inventory.price_with_tax"],
        additions="anything",
        reference=[
            Replace(
                "logger = logging.getLogger(__name__)\n",
                "logger = logging.getLogger(__name__)\n\nTAX_FACTOR = 1.19\n",
            ),
            Replace("price * 1.19", "price * TAX_FACTOR"),
        ],
        wrong=[
            [
                Replace(
                    "        return round(self.items[name].price * 1.19",
                    "        TAX_FACTOR = 1.19\n"
                    "        return round(self.items[name].price * TAX_FACTOR",
                )
            ]
        ],
        checks=[
            lacks("Inventory", r"1\.19"),
            runs(
                "assert TAX_FACTOR == 1.19\n"
                "assert load_inventory([('a', 10, 1)]).price_with_tax('a') == 11.9"
            ),
        ],
    ),
    Task(
        id="python-inventory-f-string",
        kind="f-string",
        path=_INVENTORY,
        instruction="Rewrite the return value of `describe` as an f-string.",
        may_change=["Inventory.describe"],
        reference=[
            Replace(
                '"%s: %d at %.2f each" % (item.name, item.quantity, item.price)',
                'f"{item.name}: {item.quantity} at {item.price:.2f} each"',
            )
        ],
        wrong=[
            [
                Replace(
                    '"%s: %d at %.2f each" % (item.name, item.quantity, item.price)',
                    'f"{item.name}: {item.quantity} at {item.price} each"',
                )
            ]
        ],
        checks=[
            has_node("Inventory.describe", "interpolation"),
            lacks("Inventory.describe", r"%"),
            runs(
                "i = load_inventory([('tea', 2.5, 3)])\n"
                "assert i.describe('tea') == 'tea: 3 at 2.50 each'"
            ),
        ],
    ),
)

_LOG_SUMMARY = (
    Task(
        id="python-log-parameter",
        kind="signature",
        path=_LOG,
        instruction='Add a parameter `encoding` with the default "utf-8" to `read_lines` and pass '
        "it to open.",
        may_change=["read_lines"],
        reference=[
            Replace("read_lines(path):", 'read_lines(path, encoding="utf-8"):'),
            Replace("open(path)", "open(path, encoding=encoding)"),
        ],
        wrong=[[Replace("read_lines(path):", 'read_lines(path, encoding="utf-8"):')]],
        checks=[
            runs(
                "open('a', 'wb').write('gr\\u00fcn\\n'.encode('latin-1'))\n"
                "assert read_lines('a', encoding='latin-1') == ['gr\\u00fcn']\n"
                "open('a', 'wb').write('gr\\u00fcn\\n'.encode('utf-8'))\n"
                "assert read_lines('a') == ['gr\\u00fcn']\n"
                "assert inspect.signature(read_lines).parameters['encoding'].default == 'utf-8'"
            )
        ],
    ),
    Task(
        id="python-log-boundary",
        kind="bug fix",
        path=_LOG,
        instruction="`slowest` returns one message too few; it should return `count` of them.",
        may_change=["slowest"],
        reference=[Replace("timed[: count - 1]", "timed[:count]")],
        wrong=[[Replace("timed[: count - 1]", "timed[: count + 1]")]],
        checks=[
            runs(
                "m = ['a took 5ms', 'b took 70ms', 'c', 'd took 9ms']\n"
                "assert slowest(m, 2) == [(70, 'b took 70ms'), (9, 'd took 9ms')]\n"
                "assert len(slowest(m, 1)) == 1 and len(slowest(m, 9)) == 3"
            )
        ],
    ),
    Task(
        id="python-log-extract",
        kind="extract",
        path=_LOG,
        instruction="Extract the two lines that find the level of a line from `count_levels` into "
        "a function `level_of(line)`.",
        may_change=["count_levels"],
        additions="anything",
        reference=[
            Replace(
                "def count_levels(lines):\n",
                "def level_of(line):\n"
                '    parts = line.split(" ", 2)\n'
                '    return parts[1] if len(parts) > 1 else "INFO"\n\n\n'
                "def count_levels(lines):\n",
            ),
            Replace(
                '        parts = line.split(" ", 2)\n        level = parts[1] if len(parts) > 1 '
                'else "INFO"\n',
                "        level = level_of(line)\n",
            ),
        ],
        wrong=[
            [
                Replace(
                    "def count_levels(lines):\n",
                    'def level_of(line):\n    return line.split(" ", 2)[1]\n\n\n'
                    "def count_levels(lines):\n",
                )
            ]
        ],
        checks=[
            has("count_levels", r"\blevel_of\("),
            lacks("count_levels", r"\.split\("),
            runs(
                "assert level_of('12:00 ERROR it broke') == 'ERROR' and level_of('x') == 'INFO'\n"
                "assert count_levels(['t ERROR a', 't INFO b', 'c']) == "
                "{'DEBUG': 0, 'INFO': 2, 'WARNING': 0, 'ERROR': 1}"
            ),
        ],
    ),
    Task(
        id="python-log-no-else",
        kind="early return",
        path=_LOG,
        instruction="Remove the unnecessary else branches from `duration_of`.",
        may_change=["duration_of"],
        reference=[
            Replace(
                "            return int(words[-1][:-2])\n"
                "        else:\n"
                "            return None\n"
                "    else:\n"
                "        return None\n",
                "            return int(words[-1][:-2])\n    return None\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "        else:\n            return None\n    else:\n        return None\n",
                    "    return 0\n",
                )
            ]
        ],
        checks=[
            lacks_node("duration_of", "else_clause"),
            runs(
                "assert duration_of('GET / took 120ms') == 120 and duration_of('') is None\n"
                "assert duration_of('it took long') is None and duration_of('a b c') is None"
            ),
        ],
    ),
)

_TEXT_TOOLS = (
    Task(
        id="python-text-default",
        kind="default value",
        path=_TEXT,
        instruction='Give the parameter `suffix` of `truncate` the default "...".',
        may_change=["truncate"],
        reference=[Replace("width, suffix):", 'width, suffix="..."):')],
        wrong=[[Replace("width, suffix):", "width, suffix=None):")]],
        checks=[
            runs(
                "assert truncate('a long text', 8) == 'a lon...' and truncate('a', 8) == 'a'\n"
                "assert truncate('a long text', 5, '!') == 'a lo!'"
            )
        ],
    ),
    Task(
        id="python-text-rename-variable",
        kind="rename",
        path=_TEXT,
        instruction="Rename the variable `d` in `word_counts` to `counts`.",
        may_change=["word_counts"],
        reference=[
            Replace("    d = {}", "    counts = {}"),
            Replace("d[word] = d.get(", "counts[word] = counts.get("),
            Replace("    return d\n", "    return counts\n"),
        ],
        wrong=[[Replace("    d = {}", "    counts = {}")]],
        checks=[
            gone("d"),
            has("word_counts", r"\bcounts\b"),
            runs("assert word_counts('the cat and a Cat') == {'cat': 2}"),
        ],
    ),
    Task(
        id="python-text-comprehension",
        kind="comprehension",
        path=_TEXT,
        instruction="Rewrite the body of `long_words` as a list comprehension.",
        may_change=["long_words"],
        reference=[
            Replace(
                "    result = []\n"
                "    for word in text.split():\n"
                "        if len(word) >= minimum:\n"
                "            result.append(word)\n"
                "    return result\n",
                "    return [word for word in text.split() if len(word) >= minimum]\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    result = []\n"
                    "    for word in text.split():\n"
                    "        if len(word) >= minimum:\n"
                    "            result.append(word)\n"
                    "    return result\n",
                    "    return [word for word in text.split() if len(word) > minimum]\n",
                )
            ]
        ],
        checks=[
            has_node("long_words", "list_comprehension"),
            lacks("long_words", r"\.append\("),
            runs(
                "assert long_words('a wonderful absolute day') == ['wonderful', 'absolute']\n"
                "assert long_words('ab abc', 3) == ['abc']"
            ),
        ],
    ),
    Task(
        id="python-text-return-directly",
        kind="simplify",
        path=_TEXT,
        instruction="Return the result of the comparison directly in `is_palindrome`.",
        may_change=["is_palindrome"],
        reference=[
            Replace(
                "    if letters == letters[::-1]:\n"
                "        return True\n"
                "    else:\n"
                "        return False\n",
                "    return letters == letters[::-1]\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    if letters == letters[::-1]:\n"
                    "        return True\n"
                    "    else:\n"
                    "        return False\n",
                    "    return text == text[::-1]\n",
                )
            ]
        ],
        checks=[
            lacks_node("is_palindrome", "if_statement"),
            runs("assert is_palindrome('Never odd or even') and not is_palindrome('ab')"),
        ],
    ),
    Task(
        id="python-text-f-string",
        kind="f-string",
        path=_TEXT,
        instruction="Use an f-string in `greet`.",
        may_change=["greet"],
        reference=[
            Replace(
                '"Hello " + name + ", you have " + str(count) + " new messages"',
                'f"Hello {name}, you have {count} new messages"',
            )
        ],
        wrong=[
            [
                Replace(
                    '"Hello " + name + ", you have " + str(count) + " new messages"',
                    'f"Hello {name}, you have {count} messages"',
                )
            ]
        ],
        checks=[
            has_node("greet", "interpolation"),
            lacks("greet", r"\+"),
            runs("assert greet('Ann', 2) == 'Hello Ann, you have 2 new messages'"),
        ],
    ),
    Task(
        id="python-text-hints",
        kind="type hints",
        path=_TEXT,
        instruction="Add type hints to the parameters and the return value of `wrap`.",
        may_change=["wrap"],
        additions="imports",
        reference=[
            Replace("def wrap(text, width):", "def wrap(text: str, width: int) -> list[str]:")
        ],
        wrong=[[Replace("def wrap(text, width):", "def wrap(text: str, width: int) -> str:")]],
        checks=[
            runs(
                _SAME + "hints = typing.get_type_hints(wrap)\n"
                "assert hints['text'] is str and hints['width'] is int\n"
                "returned = hints['return']\n"
                "assert returned in (list, typing.List) or same(returned, list[str])\n"
                "assert wrap('aa bb cc', 5) == ['aa bb', 'cc']"
            )
        ],
    ),
)

_JOB_QUEUE = (
    Task(
        id="python-jobs-rename-parameter",
        kind="rename",
        path=_JOBS,
        instruction="Rename the parameter `n` of `backoff` to `attempt`.",
        may_change=["backoff"],
        reference=[
            Replace("def backoff(n,", "def backoff(attempt,"),
            Replace("base * 2**n", "base * 2**attempt"),
        ],
        wrong=[[Replace("def backoff(n,", "def backoff(attempt,")]],
        checks=[
            lacks("backoff", r"\bn\b"),
            runs("assert backoff(attempt=2) == 2.0 and backoff(20) == 30.0"),
        ],
    ),
    Task(
        id="python-jobs-constant",
        kind="constant",
        path=_JOBS,
        instruction="Replace the number 3 in `run_next` with a module constant MAX_TRIES.",
        may_change=["JobQueue.run_next"],
        additions="anything",
        reference=[
            Replace("\n\nclass Job:", "\nMAX_TRIES = 3\n\n\nclass Job:"),
            Replace("job.tries < 3", "job.tries < MAX_TRIES"),
        ],
        wrong=[[Replace("job.tries < 3", "job.tries < self.MAX_TRIES")]],
        checks=[
            has("JobQueue.run_next", r"<\s*MAX_TRIES|MAX_TRIES\s*>"),
            runs(
                "assert MAX_TRIES == 3\n"
                "q = JobQueue(); j = Job('a', lambda: 1 / 0); q.push(j); q.run_all()\n"
                "assert j.tries == 3 and q.failed == [j]"
            ),
        ],
    ),
    Task(
        id="python-jobs-min",
        kind="simplify",
        path=_JOBS,
        instruction="Use min() in `backoff` instead of the if statement.",
        may_change=["backoff"],
        reference=[
            Replace(
                "    delay = base * 2**n\n"
                "    if delay > limit:\n"
                "        delay = limit\n"
                "    return delay\n",
                "    return min(limit, base * 2**n)\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    if delay > limit:\n        delay = limit\n    return delay\n",
                    "    return max(limit, delay)\n",
                )
            ]
        ],
        checks=[
            lacks_node("backoff", "if_statement"),
            has("backoff", r"\bmin\("),
            runs("assert [backoff(i) for i in (0, 2, 9)] == [0.5, 2.0, 30.0]"),
        ],
    ),
    Task(
        id="python-jobs-empty",
        kind="error handling",
        path=_JOBS,
        instruction='Raise an IndexError with the message "no jobs waiting" in `pop` when the '
        "heap is empty.",
        may_change=["JobQueue.pop"],
        reference=[
            Replace(
                "        return heapq.heappop",
                "        if not self._heap:\n"
                '            raise IndexError("no jobs waiting")\n'
                "        return heapq.heappop",
            )
        ],
        wrong=[
            [
                Replace(
                    "        return heapq.heappop",
                    "        if not self._heap:\n"
                    "            return None\n"
                    "        return heapq.heappop",
                )
            ]
        ],
        checks=[
            runs(
                "q = JobQueue(); j = Job('a', int); q.push(j); assert q.pop() is j\n"
                "try: q.pop()\n"
                "except IndexError as error: assert 'no jobs waiting' in str(error)\n"
                "else: raise AssertionError('no IndexError')"
            )
        ],
    ),
)

_INTERVAL_TASKS = (
    Task(
        id="python-intervals-boundary",
        kind="bug fix",
        path=_INTERVALS,
        instruction="The end does not belong to an interval: fix `Interval.contains`.",
        may_change=["Interval.contains"],
        reference=[Replace("<= point <= self.end", "<= point < self.end")],
        wrong=[[Replace("self.start <= point <= self.end", "self.start < point < self.end")]],
        checks=[
            runs(
                "i = Interval(2, 5); assert [i.contains(n) for n in (1, 2, 4, 5)] == "
                "[False, True, True, False]"
            )
        ],
    ),
    Task(
        id="python-intervals-any",
        kind="simplify",
        path=_INTERVALS,
        instruction="Use any() in `any_contains` instead of the loop.",
        may_change=["any_contains"],
        reference=[
            Replace(
                "    for interval in intervals:\n"
                "        if interval.start <= point < interval.end:\n"
                "            return True\n"
                "    return False\n",
                "    return any(interval.start <= point < interval.end "
                "for interval in intervals)\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    for interval in intervals:\n"
                    "        if interval.start <= point < interval.end:\n"
                    "            return True\n"
                    "    return False\n",
                    "    return any(interval.start <= point <= interval.end "
                    "for interval in intervals)\n",
                )
            ]
        ],
        checks=[
            lacks_node("any_contains", "for_statement"),
            runs(
                "i = [Interval(1, 2), Interval(4, 6)]\n"
                "assert [any_contains(i, n) for n in (1, 2, 5, 6)] == [True, False, True, False]"
            ),
        ],
    ),
    Task(
        id="python-intervals-method",
        kind="add a method",
        path=_INTERVALS,
        instruction="Add a method `is_empty` to `Interval` that returns whether start and end are "
        "equal.",
        may_change=["Interval"],
        reference=[
            Replace(
                "    def contains(self, point):\n",
                "    def is_empty(self):\n"
                "        return self.start == self.end\n\n"
                "    def contains(self, point):\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    def contains(self, point):\n",
                    "    def is_empty(self):\n"
                    "        return self.start != self.end\n\n"
                    "    def contains(self, point):\n",
                )
            ]
        ],
        checks=[
            runs(
                "assert Interval(3, 3).is_empty() and not Interval(3, 4).is_empty()\n"
                "i = Interval(2, 5); assert i.length() == 3 and i.shift(1) == Interval(3, 6)\n"
                "assert i.intersection(Interval(4, 9)) == Interval(4, 5)\n"
                "assert repr(i) == 'Interval(2, 5)' and i.overlaps(Interval(4, 9))\n"
                "assert i.contains(5)"
            )
        ],
    ),
    Task(
        id="python-intervals-guard",
        kind="guard clause",
        path=_INTERVALS,
        instruction="`parse_interval` should raise a ValueError if the start is after the end.",
        may_change=["parse_interval"],
        reference=[
            Replace(
                '    start, end = text.split("-")\n    return Interval(int(start), int(end))\n',
                '    start, end = (int(part) for part in text.split("-"))\n'
                "    if start > end:\n"
                '        raise ValueError("the start is after the end: " + text)\n'
                "    return Interval(start, end)\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    return Interval(int(start), int(end))\n",
                    "    if start > end:\n"
                    '        raise ValueError("the start is after the end: " + text)\n'
                    "    return Interval(int(start), int(end))\n",
                )
            ]
        ],
        checks=[
            runs(
                "assert parse_interval('9-12') == Interval(9, 12)\n"
                "assert parse_interval('5-5') == Interval(5, 5)\n"
                "try: parse_interval('12-9')\n"
                "except ValueError: pass\n"
                "else: raise AssertionError('no ValueError')"
            )
        ],
    ),
)

TASKS: tuple[Task, ...] = (
    *_TTL_CACHE,
    *_CONFIG_READER,
    *_SHOP,
    *_LOG_SUMMARY,
    *_TEXT_TOOLS,
    *_JOB_QUEUE,
    *_INTERVAL_TASKS,
)
