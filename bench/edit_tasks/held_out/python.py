"""Held-out tasks on Python files."""

from __future__ import annotations

from bench.edit_tasks.checks import gone, has, has_node, lacks, lacks_node, runs
from bench.edit_tasks.task import Between, Everywhere, Replace, Task, Word

__all__ = ["TASKS"]

_EXPORT = "csv_export.py"
_PERMISSIONS = "permissions.py"
_CLIENT = "retry_client.py"

_EXPORTER = "e = CsvExporter([Column('name'), Column('net_price', decimals=1)])\n"

_CSV_EXPORT = (
    Task(
        id="python-export-with",
        kind="with statement",
        path=_EXPORT,
        instruction="CsvExporter.write leaves the file open if a row fails. Use a with block.",
        may_change=["CsvExporter.write"],
        reference=[
            Replace(
                '        f = open(path, "w", newline="", encoding="utf-8-sig")\n'
                "        writer = csv.writer(f, delimiter=self.delimiter)\n"
                "        writer.writerow(self.header())\n"
                "        for row in rows:\n"
                "            writer.writerow([column.render(row) for column in self.columns])\n"
                "            self.rows_written += 1\n"
                "        f.close()\n",
                '        with open(path, "w", newline="", encoding="utf-8-sig") as f:\n'
                "            writer = csv.writer(f, delimiter=self.delimiter)\n"
                "            writer.writerow(self.header())\n"
                "            for row in rows:\n"
                "                writer.writerow([column.render(row) for column in self.columns])\n"
                "                self.rows_written += 1\n",
            )
        ],
        wrong=[
            [
                Replace(
                    '        f = open(path, "w", newline="", encoding="utf-8-sig")\n'
                    "        writer = csv.writer(f, delimiter=self.delimiter)\n"
                    "        writer.writerow(self.header())\n",
                    '        with open(path, "w", newline="", encoding="utf-8-sig") as f:\n'
                    "            writer = csv.writer(f, delimiter=self.delimiter)\n"
                    "            writer.writerow(self.header())\n",
                ),
                Replace("        f.close()\n", ""),
            ]
        ],
        checks=[
            has_node("CsvExporter.write", "with_statement"),
            lacks("CsvExporter.write", r"\.close\("),
            runs(
                _EXPORTER + "assert e.write('a.csv', [{'name': 'tea', 'net_price': 2.5}]) == 1\n"
                "written = open('a.csv', 'rb').read()\n"
                "assert written == b'\\xef\\xbb\\xbfName;Net price\\r\\ntea;2.5\\r\\n'\n"
                "opened = []\n"
                "def spy(*a, **k): opened.append(open(*a, **k)); return opened[-1]\n"
                "module.open = spy\n"
                "try: e.write('b.csv', [None])\n"
                "except AttributeError: pass\n"
                "assert all(file.closed for file in opened)"
            ),
        ],
    ),
    Task(
        id="python-export-comprehension",
        kind="comprehension",
        path=_EXPORT,
        instruction="make this a list comprehension",
        selected=Between("titles = []", "return titles"),
        may_change=[Between("titles = []", "return titles")],
        reference=[
            Replace(
                "        titles = []\n"
                "        for column in self.columns:\n"
                "            titles.append(column.title)\n"
                "        return titles\n",
                "        return [column.title for column in self.columns]\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "        titles = []\n"
                    "        for column in self.columns:\n"
                    "            titles.append(column.title)\n"
                    "        return titles\n",
                    "        return [column.key for column in self.columns]\n",
                )
            ]
        ],
        checks=[
            has_node("CsvExporter.header", "list_comprehension"),
            lacks("CsvExporter.header", r"append"),
            runs(_EXPORTER + "assert e.header() == ['Name', 'Net price']"),
        ],
    ),
    Task(
        id="python-export-guard",
        kind="guard clause",
        path=_EXPORT,
        instruction="`escape_formula` crashes with an IndexError on an empty string. It should "
        "return it unchanged.",
        may_change=["escape_formula"],
        reference=[
            Replace(
                "    if text[0] in FORMULA_STARTS:\n",
                "    if not text:\n        return text\n    if text[0] in FORMULA_STARTS:\n",
            )
        ],
        wrong=[[Replace("if text[0] in", "if text and text not in")]],
        checks=[
            runs(
                "assert escape_formula('') == '' and escape_formula('tea') == 'tea'\n"
                "assert escape_formula('=1+1') == \"'=1+1\" and escape_formula('-3') == \"'-3\"\n"
                "assert Column('a').render({'a': ''}) == ''"
            )
        ],
    ),
    Task(
        id="python-export-hints",
        kind="type hints",
        path=_EXPORT,
        instruction="Annotate default_filename: report is a string, day is a date, and it returns "
        "a string.",
        may_change=["default_filename"],
        additions="imports",
        reference=[
            Replace(
                "default_filename(report, day):",
                "default_filename(report: str, day: date) -> str:",
            )
        ],
        wrong=[
            [
                Replace(
                    "default_filename(report, day):",
                    "default_filename(report: str, day: str) -> str:",
                )
            ],
            [
                Replace(
                    "default_filename(report, day):", "default_filename(report: str, day: date):"
                )
            ],
        ],
        checks=[
            runs(
                "hints = typing.get_type_hints(default_filename)\n"
                "assert hints == {'report': str, 'day': date, 'return': str}\n"
                "name = default_filename(' Open orders', date(2024, 3, 9))\n"
                "assert name == 'open-orders_20240309.csv'"
            )
        ],
    ),
    Task(
        id="python-export-f-string",
        kind="f-string",
        path=_EXPORT,
        instruction="Turn the concatenation in `export_message` into an f-string.",
        may_change=["export_message"],
        reference=[
            Replace(
                '"Wrote " + str(count) + " rows to " + os.path.basename(path)',
                'f"Wrote {count} rows to {os.path.basename(path)}"',
            )
        ],
        wrong=[
            [
                Replace(
                    '"Wrote " + str(count) + " rows to " + os.path.basename(path)',
                    'f"Wrote {count} rows to {path}"',
                )
            ]
        ],
        checks=[
            has_node("export_message", "interpolation"),
            lacks("export_message", r"\+"),
            runs("assert export_message('/tmp/x/a.csv', 12) == 'Wrote 12 rows to a.csv'"),
        ],
    ),
    Task(
        id="python-export-default",
        kind="default value",
        path=_EXPORT,
        instruction="limit should default to 5 in `CsvExporter.preview`",
        may_change=["CsvExporter.preview"],
        reference=[Replace("preview(self, rows, limit):", "preview(self, rows, limit=5):")],
        wrong=[[Replace("preview(self, rows, limit):", "preview(self, rows, limit=None):")]],
        checks=[
            runs(
                _EXPORTER + "rows = [{'name': str(i)} for i in range(9)]\n"
                "assert e.preview(rows) == 'Name;Net price\\n0;\\n1;\\n2;\\n3;\\n4;\\n'\n"
                "assert e.preview(rows, 1) == e.preview(rows, limit=1) == 'Name;Net price\\n0;\\n'"
            )
        ],
    ),
)

_TABLE = (
    "t = PermissionTable(); t.define('clerk', ['orders:read']); t.define('boss', ['*'])\n"
    "t.define('seller', ['orders:*'], 'clerk')\n"
    "t.assign('ann', 'seller'); t.assign('bob', 'boss')\n"
)

_PERMISSION_TABLE = (
    Task(
        id="python-permissions-rename-method",
        kind="rename",
        path=_PERMISSIONS,
        instruction="Rename is_allowed to allows, including all the places where it is called.",
        may_change=[Word("is_allowed")],
        reference=[Everywhere("is_allowed", "allows")],
        wrong=[
            [
                Replace("def is_allowed(self", "def allows(self"),
                Replace("if not self.is_allowed(", "if not self.allows("),
                Replace("if self.is_allowed(", "if self.allows("),
            ]
        ],
        checks=[
            gone("is_allowed"),
            runs(
                _TABLE
                + "assert t.allows('ann', 'orders:pay') and not t.allows('ann', 'users:add')\n"
                "t.require('ann', 'orders:pay'); assert t.users_with('users:add') == ['bob']\n"
                "assert visible_actions(t, 'ann', 'orders', ['pay']) == ['pay']"
            ),
        ],
    ),
    Task(
        id="python-permissions-logging",
        kind="logging",
        path=_PERMISSIONS,
        instruction="Don't print in `require`, log it as a warning.",
        may_change=["PermissionTable.require"],
        reference=[
            Replace(
                'print(f"denied {permission} to {user}")',
                'log.warning("denied %s to %s", permission, user)',
            )
        ],
        wrong=[
            [
                Replace(
                    'print(f"denied {permission} to {user}")',
                    'log.info("denied %s to %s", permission, user)',
                )
            ]
        ],
        checks=[
            lacks("PermissionTable.require", r"\bprint\b"),
            runs(
                "import logging\n"
                "seen = []\n"
                "class Keep(logging.Handler):\n"
                "    def emit(self, record): seen.append((record.levelname, record.getMessage()))\n"
                "logging.getLogger().addHandler(Keep())\n"
                + _TABLE
                + "t.require('ann', 'orders:pay'); assert seen == []\n"
                "try: t.require('ann', 'users:add')\n"
                "except PermissionDenied: pass\n"
                "else: raise AssertionError('not denied')\n"
                "[(level, text)] = seen\n"
                "assert level == 'WARNING' and 'ann' in text and 'users:add' in text"
            ),
        ],
    ),
    Task(
        id="python-permissions-no-else",
        kind="early return",
        path=_PERMISSIONS,
        instruction="There is no need for else after return in `matches`, flatten it.",
        may_change=["matches"],
        reference=[
            Replace(
                "    else:\n"
                '        if grant.endswith(":*"):\n'
                "            return permission.startswith(grant[:-1])\n"
                "        else:\n"
                "            return grant == permission\n",
                '    if grant.endswith(":*"):\n'
                "        return permission.startswith(grant[:-1])\n"
                "    return grant == permission\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    else:\n"
                    '        if grant.endswith(":*"):\n'
                    "            return permission.startswith(grant[:-1])\n"
                    "        else:\n"
                    "            return grant == permission\n",
                    '    if grant.endswith(":*"):\n'
                    "        return permission.startswith(grant[:-1])\n",
                )
            ]
        ],
        checks=[
            lacks_node("matches", "else_clause"),
            runs(
                "assert matches('*', 'a:b') is True and matches('a:*', 'a:b') is True\n"
                "assert matches('a:*', 'ab:c') is False and matches('a:b', 'a:b') is True\n"
                "assert matches('a:b', 'a:c') is False"
            ),
        ],
    ),
    Task(
        id="python-permissions-revoke",
        kind="error handling",
        path=_PERMISSIONS,
        instruction="`revoke` fails with a KeyError when the user is unknown or does not have the "
        "role; it should do nothing then.",
        may_change=["PermissionTable.revoke"],
        reference=[
            Replace(
                "        self._members[user].remove(role)\n",
                "        self._members.get(user, set()).discard(role)\n",
            )
        ],
        wrong=[[Replace("self._members[user].remove(role)", "self._members[user].discard(role)")]],
        checks=[
            runs(
                _TABLE + "t.revoke('ann', 'boss'); t.revoke('eve', 'boss')\n"
                "assert t.is_allowed('ann', 'orders:pay') and t.is_allowed('bob', 'users:add')\n"
                "t.revoke('ann', 'seller'); assert not t.is_allowed('ann', 'orders:read')"
            )
        ],
    ),
    Task(
        id="python-permissions-docstring",
        kind="documentation",
        path=_PERMISSIONS,
        instruction="Write a short docstring for the method users_with.",
        may_change=["PermissionTable.users_with"],
        reference=[
            Replace(
                "        return sorted(user for",
                '        """The names of all users who have a permission, sorted."""\n'
                "        return sorted(user for",
            )
        ],
        wrong=[
            [
                Replace(
                    "        return sorted(user for",
                    "        # The names of all users who have a permission.\n"
                    "        return sorted(user for",
                )
            ]
        ],
        checks=[
            runs(
                _TABLE + "said = PermissionTable.users_with.__doc__\n"
                "assert len(said.split()) > 2 and 'user' in said.lower()\n"
                "assert t.users_with('orders:pay') == ['ann', 'bob']"
            )
        ],
    ),
)

_SERVICE = (
    "sent = []; waits = []\n"
    "def client(*answers, **options):\n"
    "    left = list(answers); sent.clear(); waits.clear()\n"
    "    def transport(*request): sent.append(request); return left.pop(0)\n"
    "    return RetryClient(transport, 'http://h/v1/', sleep=waits.append, **options)\n"
    "ok = Response(200, '{\"a\": 1}')\n"
)

_RETRY_CLIENT = (
    Task(
        id="python-client-constant",
        kind="constant",
        path=_CLIENT,
        instruction="Pull the 8.0 in `RetryClient.delay` out into a module constant `MAX_DELAY`.",
        may_change=["RetryClient.delay"],
        additions="anything",
        reference=[
            Replace(
                "RETRYABLE = {429, 502, 503, 504}\n",
                "RETRYABLE = {429, 502, 503, 504}\n\nMAX_DELAY = 8.0\n",
            ),
            Replace("2**attempt, 8.0)", "2**attempt, MAX_DELAY)"),
        ],
        wrong=[[Replace("2**attempt, 8.0)", "2**attempt, MAX_DELAY)")]],
        checks=[
            lacks("RetryClient", r"\b8\.0\b"),
            has("RetryClient.delay", r"\bMAX_DELAY\b"),
            runs(
                _SERVICE + "assert MAX_DELAY == 8.0\n"
                "assert [client().delay(n, ok) for n in (0, 2, 9)] == [0.25, 1.0, 8.0]\n"
                "assert client().delay(0, Response(429, '', {'Retry-After': '30'})) == 30"
            ),
        ],
    ),
    Task(
        id="python-client-parameter",
        kind="signature",
        path=_CLIENT,
        instruction="post should take an optional `params` too, just as get does, and put them "
        "into the URL.",
        may_change=["RetryClient.post"],
        reference=[
            Replace("post(self, path, payload):", "post(self, path, payload, params=None):"),
            Replace('"POST", self.url_for(path), ', '"POST", self.url_for(path, params), '),
        ],
        wrong=[[Replace("post(self, path, payload):", "post(self, path, payload, params=None):")]],
        checks=[
            runs(
                _SERVICE + "assert client(ok).post('x', [1], params={'b': 2}) == {'a': 1}\n"
                "assert sent == [('POST', 'http://h/v1/x?b=2', '[1]')]\n"
                "client(ok).post('x', [1]); assert sent == [('POST', 'http://h/v1/x', '[1]')]"
            )
        ],
    ),
    Task(
        id="python-client-extract",
        kind="extract",
        path=_CLIENT,
        instruction="Move this into a module-level function `error_message(response)` that returns "
        "the message, and call it here.",
        selected=Between("            try:", 'message = ""'),
        may_change=["RetryClient._send"],
        additions="anything",
        reference=[
            Replace(
                "class RetryClient:\n",
                "def error_message(response):\n"
                "    try:\n"
                '        return response.json()["error"]\n'
                "    except (ValueError, KeyError):\n"
                '        return ""\n\n\n'
                "class RetryClient:\n",
            ),
            Replace(
                "            try:\n"
                '                message = response.json()["error"]\n'
                "            except (ValueError, KeyError):\n"
                '                message = ""\n'
                "            raise ServiceError(response.status, message)\n",
                "            raise ServiceError(response.status, error_message(response))\n",
            ),
        ],
        wrong=[
            [
                Replace(
                    "class RetryClient:\n",
                    "def error_message(response):\n"
                    '    return response.json()["error"]\n\n\n'
                    "class RetryClient:\n",
                ),
                Replace(
                    "            try:\n"
                    '                message = response.json()["error"]\n'
                    "            except (ValueError, KeyError):\n"
                    '                message = ""\n',
                    "            message = error_message(response)\n",
                ),
            ]
        ],
        checks=[
            has("RetryClient._send", r"\berror_message\("),
            lacks("RetryClient._send", r"\bexcept\b"),
            runs(
                _SERVICE + "assert error_message(Response(400, '{\"error\": \"bad\"}')) == 'bad'\n"
                "assert error_message(Response(400, '{}')) == ''\n"
                "assert error_message(Response(500, '<html>')) == ''\n"
                "for body, text in (('{\"error\": \"bad\"}', 'bad'), ('<html>', 'HTTP 400')):\n"
                "    try: client(Response(503), Response(400, body)).get('x')\n"
                "    except ServiceError as e: assert (e.status, str(e)) == (400, text)\n"
                "    else: raise AssertionError('no ServiceError')\n"
                "assert waits == [0.25] and client(ok).get('x') == {'a': 1}"
            ),
        ],
    ),
    Task(
        id="python-client-query",
        kind="bug fix",
        path=_CLIENT,
        instruction='`url_for` adds a second "?" when the path already has a query; the params '
        'must follow after "&" in that case.',
        may_change=["RetryClient.url_for"],
        reference=[
            Replace(
                '            url += "?" + urlencode(params)\n',
                '            url += ("&" if "?" in url else "?") + urlencode(params)\n',
            )
        ],
        wrong=[[Replace('url += "?" + urlencode', 'url += "&" + urlencode')]],
        checks=[
            runs(
                _SERVICE + "c = client()\n"
                "assert c.url_for('/x?a=1', {'b': 2}) == 'http://h/v1/x?a=1&b=2'\n"
                "assert c.url_for('x', {'b': 2, 'c': 3}) == 'http://h/v1/x?b=2&c=3'\n"
                "assert c.url_for('x?a=1') == 'http://h/v1/x?a=1' and c.url_for('x') == 'http://h/v1/x'"
            )
        ],
    ),
)

TASKS: tuple[Task, ...] = (*_CSV_EXPORT, *_PERMISSION_TABLE, *_RETRY_CLIENT)
