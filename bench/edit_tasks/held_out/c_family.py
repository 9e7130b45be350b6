"""Held-out tasks on C and C++ files."""

from __future__ import annotations

from bench.edit_tasks.checks import has, has_node, lacks, lacks_node, runs
from bench.edit_tasks.task import Between, Replace, Task

__all__ = ["TASKS"]

_URL = "url.c"
_GEOMETRY = "geometry.cpp"

_NO_MEMORY = """
#include <stdlib.h>
static int no_memory;
static void *test_malloc(size_t size) { return no_memory ? NULL : malloc(size); }
static void *test_calloc(size_t n, size_t size) { return no_memory ? NULL : calloc(n, size); }
#define malloc test_malloc
#define calloc test_calloc
"""

_URL_TASKS = (
    Task(
        id="c-url-terminator",
        kind="bug fix",
        path=_URL,
        instruction="copy_part writes one byte behind the buffer when length equals size. Fix the "
        "check.",
        may_change=["copy_part"],
        reference=[Replace("if (length > size)", "if (length >= size)")],
        wrong=[[Replace("if (length > size)", "if (length > size + 1)")]],
        checks=[
            runs(
                'char to[8] = "zzzzzzz";\n'
                'assert(!copy_part(to, 4, "abcd", 4) && !copy_part(to, 4, "abcde", 5));\n'
                'assert(to[4] == \'z\' && copy_part(to, 4, "abc", 3) && strcmp(to, "abc") == 0);\n'
                "assert(copy_part(to, 4, \"\", 0) && to[0] == 0 && to[4] == 'z');"
            )
        ],
    ),
    Task(
        id="c-url-macro",
        kind="constant",
        path=_URL,
        instruction="Introduce a macro `MAX_PORT` for the 65535 in `parse_port`.",
        may_change=["parse_port"],
        additions="anything",
        reference=[
            Replace("#include <string.h>\n", "#include <string.h>\n\n#define MAX_PORT 65535\n"),
            Replace("port > 65535", "port > MAX_PORT"),
        ],
        wrong=[[Replace("port > 65535", "port > MAX_PORT")]],
        checks=[
            lacks("parse_port", r"\b65535"),
            has("parse_port", r"\bMAX_PORT\b"),
            runs(
                'assert(MAX_PORT == 65535 && parse_port("65535") == 65535);\n'
                'assert(parse_port("65536") == -1 && parse_port("0") == -1);'
            ),
        ],
    ),
    Task(
        id="c-url-rename-parameter",
        kind="rename",
        path=_URL,
        instruction="The parameter `s` of `parse_port` should be called `text`.",
        may_change=["parse_port"],
        reference=[
            Replace("parse_port(const char *s)", "parse_port(const char *text)"),
            Replace("strtol(s, &end, 10)", "strtol(text, &end, 10)"),
            Replace("end == s ||", "end == text ||"),
        ],
        wrong=[
            [
                Replace("parse_port(const char *s)", "parse_port(const char *text)"),
                Replace("strtol(s, &end, 10)", "strtol(text, &end, 10)"),
            ]
        ],
        checks=[
            lacks("parse_port", r"\bs\b"),
            has("parse_port", r"\(const char ?\* ?text\)"),
            runs('assert(parse_port("8080/a") == 8080 && parse_port("x") == -1);'),
        ],
    ),
    Task(
        id="c-url-early-return",
        kind="early return",
        path=_URL,
        instruction='Simplify `url_file_name` so that it has no else and "index.html" stands in it '
        "only once.",
        may_change=["url_file_name"],
        reference=[
            Replace(
                "    if (slash != NULL) {\n"
                "        if (slash[1] != '\\0') {\n"
                "            return slash + 1;\n"
                "        } else {\n"
                '            return "index.html";\n'
                "        }\n"
                "    } else {\n"
                '        return "index.html";\n'
                "    }\n",
                "    if (slash == NULL || slash[1] == '\\0')\n"
                '        return "index.html";\n'
                "    return slash + 1;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    if (slash != NULL) {\n"
                    "        if (slash[1] != '\\0') {\n"
                    "            return slash + 1;\n"
                    "        } else {\n"
                    '            return "index.html";\n'
                    "        }\n"
                    "    } else {\n"
                    '        return "index.html";\n'
                    "    }\n",
                    '    if (slash == NULL)\n        return "index.html";\n    return slash + 1;\n',
                )
            ]
        ],
        checks=[
            lacks_node("url_file_name", "else_clause"),
            lacks("url_file_name", r'(?s)"index\.html".*"index\.html"'),
            runs(
                'struct url u = {"http", "h", "/a/b.txt", 80};\n'
                'assert(strcmp(url_file_name(&u), "b.txt") == 0); strcpy(u.path, "/a/");\n'
                'assert(strcmp(url_file_name(&u), "index.html") == 0); u.path[0] = 0;\n'
                'assert(strcmp(url_file_name(&u), "index.html") == 0);'
            ),
        ],
    ),
    Task(
        id="c-url-malloc",
        kind="error handling",
        path=_URL,
        instruction="url_format should return NULL if it gets no memory.",
        may_change=["url_format"],
        reference=[
            Replace(
                "    char *text = malloc(size);\n",
                "    char *text = malloc(size);\n    if (text == NULL)\n        return NULL;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    return text;\n",
                    "    if (text == NULL)\n        return NULL;\n    return text;\n",
                )
            ]
        ],
        checks=[
            runs(
                'struct url u; assert(url_parse(&u, "HTTP://Example.org:8080/a"));\n'
                'assert(strcmp(url_format(&u), "http://example.org:8080/a") == 0); u.port = 80;\n'
                'assert(strcmp(url_format(&u), "http://example.org/a") == 0);\n'
                "no_memory = 1; assert(url_format(&u) == NULL);\n"
                "u.port = 81; assert(url_format(&u) == NULL);",
                _NO_MEMORY,
            )
        ],
    ),
)

_SHAPES = "plan::Rect rect({0, 0}, {4, 2});\nplan::Polygon triangle({{1, 1}, {4, 1}, {1, 5}});\n"

_GEOMETRY_TASKS = (
    Task(
        id="cpp-geometry-method",
        kind="add a method",
        path=_GEOMETRY,
        instruction="Rect needs a const method `area` that returns width times height.",
        may_change=["Rect"],
        reference=[
            Replace(
                "    double height() const { return high_.y - low_.y; }\n",
                "    double height() const { return high_.y - low_.y; }\n"
                "    double area() const { return width() * height(); }\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    double height() const { return high_.y - low_.y; }\n",
                    "    double height() const { return high_.y - low_.y; }\n"
                    "    double area() { return width() * height(); }\n",
                )
            ]
        ],
        checks=[
            runs(
                _SHAPES + "const plan::Rect fixed = rect; assert(fixed.area() == 8);\n"
                "assert(fixed.width() == 4 && fixed.height() == 2 && triangle.area() == 6);\n"
                "assert(rect.center().x == 2 && rect.center().y == 1);\n"
                "assert(rect.contains({4, 2}) && !rect.contains({5, 1}));\n"
                "rect.grow(1); assert(rect.area() == 24 && rect.contains({-1, -1}));"
            )
        ],
    ),
    Task(
        id="cpp-geometry-const",
        kind="const and readonly",
        path=_GEOMETRY,
        instruction="`Rect::center` changes nothing, declare it const.",
        may_change=["Rect.center"],
        reference=[Replace("Point center() {", "Point center() const {")],
        wrong=[[Replace("Point center() {", "const Point center() {")]],
        checks=[
            runs(
                "const plan::Rect rect({0, 0}, {4, 2});\n"
                "assert(rect.center().x == 2 && rect.center().y == 1);"
            )
        ],
    ),
    Task(
        id="cpp-geometry-all-of",
        kind="loop to library call",
        path=_GEOMETRY,
        instruction="Use std::all_of in all_inside instead of the loop.",
        may_change=["all_inside"],
        reference=[
            Replace(
                "    for (const Point& p : points) {\n"
                "        if (!rect.contains(p)) {\n"
                "            return false;\n"
                "        }\n"
                "    }\n"
                "    return true;\n",
                "    return std::all_of(points.begin(), points.end(),\n"
                "                       [&](const Point& p) { return rect.contains(p); });\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    for (const Point& p : points) {\n"
                    "        if (!rect.contains(p)) {\n"
                    "            return false;\n"
                    "        }\n"
                    "    }\n"
                    "    return true;\n",
                    "    return std::all_of(points.begin(), points.end(),\n"
                    "                       [&](const Point& p) { return !rect.contains(p); });\n",
                )
            ]
        ],
        checks=[
            has("all_inside", r"\ball_of\("),
            lacks_node("all_inside", "for_range_loop", "for_statement"),
            runs(
                _SHAPES + "assert(plan::all_inside({{0, 0}, {4, 1}}, rect));\n"
                "assert(!plan::all_inside(triangle.points(), rect) && plan::all_inside({}, rect));"
            ),
        ],
    ),
    Task(
        id="cpp-geometry-range-for",
        kind="simplify",
        path=_GEOMETRY,
        instruction="Use a range-based for here.",
        selected=Between("for (auto it = points_.begin()", "        }"),
        may_change=[Between("for (auto it = points_.begin()", "        }")],
        reference=[
            Replace(
                "        for (auto it = points_.begin(); it != points_.end(); ++it) {\n"
                "            it->x += dx;\n"
                "            it->y += dy;\n",
                "        for (Point& p : points_) {\n"
                "            p.x += dx;\n"
                "            p.y += dy;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "        for (auto it = points_.begin(); it != points_.end(); ++it) {\n"
                    "            it->x += dx;\n"
                    "            it->y += dy;\n",
                    "        for (auto p : points_) {\n"
                    "            p.x += dx;\n"
                    "            p.y += dy;\n",
                )
            ]
        ],
        checks=[
            has_node("Polygon.translate", "for_range_loop"),
            lacks_node("Polygon.translate", "for_statement"),
            runs(
                _SHAPES + "triangle.translate(2, -1);\n"
                "assert(triangle.points()[0].x == 3 && triangle.points()[0].y == 0);\n"
                "assert(triangle.points()[2].x == 3 && triangle.points()[2].y == 4);"
            ),
        ],
    ),
    Task(
        id="cpp-geometry-guard",
        kind="guard clause",
        path=_GEOMETRY,
        instruction="Polygon::bounds must throw a std::logic_error if the polygon has no points.",
        may_change=["Polygon.bounds"],
        reference=[
            Replace(
                "    Rect bounds() const {\n",
                "    Rect bounds() const {\n"
                "        if (points_.empty()) {\n"
                '            throw std::logic_error("the polygon has no points");\n'
                "        }\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    Rect bounds() const {\n",
                    "    Rect bounds() const {\n"
                    "        if (points_.empty()) {\n"
                    "            return Rect({}, {});\n"
                    "        }\n",
                )
            ]
        ],
        checks=[
            runs(
                _SHAPES + "plan::Rect box = triangle.bounds(); bool thrown = false;\n"
                "assert(box.width() == 3 && box.height() == 4 && box.contains({1, 1}));\n"
                "assert(plan::Polygon({{1, 2}}).bounds().width() == 0);\n"
                "try { plan::Polygon({}).bounds(); }\n"
                "catch (const std::logic_error&) { thrown = true; }\n"
                "assert(thrown);"
            )
        ],
    ),
)

TASKS: tuple[Task, ...] = (*_URL_TASKS, *_GEOMETRY_TASKS)
