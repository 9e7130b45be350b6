"""Tasks on C and C++ files."""

from __future__ import annotations

from bench.edit_tasks.checks import documented, gone, has, has_node, lacks, lacks_node, runs
from bench.edit_tasks.task import Between, Everywhere, Replace, Task, Word

__all__ = ["TASKS"]

_RING = "ring_buffer.c"
_COUNT = "word_count.c"
_MAP = "string_map.c"
_STATISTICS = "statistics.cpp"
_LRU = "lru_cache.cpp"
_TOKENIZER = "tokenizer.cpp"

_FAILING_MALLOC = """
#include <stdlib.h>
static int allowed = 1000; static size_t last_size; static int frees;
static void *test_malloc(size_t n) { last_size = n; return allowed-- > 0 ? malloc(n) : NULL; }
static void test_free(void *p) { frees += p != NULL; free(p); }
#define malloc test_malloc
#define free test_free
"""

_RING_BUFFER = (
    Task(
        id="c-ring-malloc",
        kind="error handling",
        path=_RING,
        instruction="Let `ring_create` return NULL if the first malloc fails.",
        may_change=["ring_create"],
        reference=[
            Replace(
                "    ring_buffer *ring = malloc(sizeof *ring);\n",
                "    ring_buffer *ring = malloc(sizeof *ring);\n"
                "    if (ring == NULL)\n"
                "        return NULL;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    return ring;\n",
                    "    if (ring == NULL)\n        return NULL;\n    return ring;\n",
                )
            ]
        ],
        checks=[
            runs(
                "ring_buffer *r = ring_create(2); assert(r && r->data && r->capacity == 2);\n"
                "allowed = 0; assert(ring_create(2) == NULL);",
                _FAILING_MALLOC,
            )
        ],
    ),
    Task(
        id="c-ring-const",
        kind="const and readonly",
        path=_RING,
        instruction="Make the parameter of `ring_space` a pointer to const.",
        may_change=["ring_space"],
        reference=[Replace("ring_space(ring_buffer *ring)", "ring_space(const ring_buffer *ring)")],
        wrong=[[Replace("ring_space(ring_buffer *ring)", "ring_space(ring_buffer *const ring)")]],
        checks=[
            has("ring_space", r"\((const ring_buffer|ring_buffer const) ?\* ?ring\)"),
            runs("ring_buffer *r = ring_create(2); ring_push(r, 1); assert(ring_space(r) == 1);"),
        ],
    ),
    Task(
        id="c-ring-boundary",
        kind="bug fix",
        path=_RING,
        instruction="`ring_peek` reads one place too far; it must return -1 when place equals the "
        "count.",
        may_change=["ring_peek"],
        reference=[Replace("place > ring->count", "place >= ring->count")],
        wrong=[[Replace("place > ring->count", "place < ring->count")]],
        checks=[
            runs(
                "ring_buffer *r = ring_create(4); ring_push(r, 7); ring_push(r, 8);\n"
                "assert(ring_peek(r, 0) == 7 && ring_peek(r, 1) == 8);\n"
                "assert(ring_peek(r, 2) == -1 && ring_peek(r, 3) == -1);"
            )
        ],
    ),
    Task(
        id="c-ring-early-return",
        kind="early return",
        path=_RING,
        instruction="In `ring_push`, return false early when the ring is full, without an else.",
        may_change=["ring_push"],
        reference=[
            Replace(
                "    if (!ring_full(ring)) {\n"
                "        size_t tail = (ring->head + ring->count) % ring->capacity;\n"
                "        ring->data[tail] = byte;\n"
                "        ring->count++;\n"
                "        return true;\n"
                "    } else {\n"
                "        return false;\n"
                "    }\n",
                "    if (ring_full(ring))\n"
                "        return false;\n"
                "    size_t tail = (ring->head + ring->count) % ring->capacity;\n"
                "    ring->data[tail] = byte;\n"
                "    ring->count++;\n"
                "    return true;\n",
            )
        ],
        wrong=[
            [
                Replace("    } else {\n        return false;\n    }\n", "    }\n"),
                Replace("if (!ring_full(ring)) {", "if (ring_full(ring)) {"),
            ]
        ],
        checks=[
            lacks_node("ring_push", "else_clause"),
            has("ring_push", r"if \(ring_full\(ring\)|count (==|>=) ring->capacity"),
            runs(
                "ring_buffer *r = ring_create(2); assert(ring_push(r, 1) && ring_push(r, 2));\n"
                "assert(!ring_push(r, 3)); uint8_t b; assert(ring_pop(r, &b) && b == 1);\n"
                "assert(ring_push(r, 3) && ring_peek(r, 1) == 3);"
            ),
        ],
    ),
    Task(
        id="c-ring-null",
        kind="guard clause",
        path=_RING,
        instruction="Let `ring_free` do nothing when it is given NULL.",
        may_change=["ring_free"],
        reference=[
            Replace(
                "    free(ring->data);\n",
                "    if (ring == NULL)\n        return;\n    free(ring->data);\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    free(ring->data);\n",
                    "    if (ring->data == NULL)\n        return;\n    free(ring->data);\n",
                )
            ]
        ],
        checks=[
            runs(
                "ring_free(NULL); assert(frees == 0); ring_free(ring_create(3)); "
                "assert(frees == 2);",
                _FAILING_MALLOC,
            )
        ],
    ),
    Task(
        id="c-ring-documentation",
        kind="documentation",
        path=_RING,
        instruction="Write a short comment above `ring_write` that says what it returns.",
        may_change=["ring_write"],
        reference=[
            Replace(
                "size_t ring_write(",
                "/* Writes as many bytes as fit; returns how many were written. */\n"
                "size_t ring_write(",
            )
        ],
        wrong=[
            [Replace("    size_t n = 0;\n", "    /* The number of bytes. */\n    size_t n = 0;\n")]
        ],
        checks=[documented("ring_write", "return", "number", "how many", "bytes")],
    ),
)

_WORD_COUNT = (
    Task(
        id="c-count-fopen",
        kind="error handling",
        path=_COUNT,
        instruction="Let `count_file` return -1 if the file cannot be opened.",
        may_change=["count_file"],
        reference=[
            Replace(
                '    FILE *file = fopen(path, "r");\n',
                '    FILE *file = fopen(path, "r");\n    if (file == NULL)\n        return -1;\n',
            )
        ],
        wrong=[
            [
                Replace(
                    '    FILE *file = fopen(path, "r");\n',
                    '    FILE *file = fopen(path, "r");\n'
                    "    if (file == NULL)\n"
                    "        return 1;\n",
                )
            ]
        ],
        checks=[
            runs(
                'struct counts c = {0, 0, 0}; assert(count_file("no-such-file", &c) == -1);\n'
                'FILE *f = fopen("a.txt", "w"); fputs("a b\\nc\\n", f); fclose(f);\n'
                'assert(count_file("a.txt", &c) == 0 && c.lines == 2 && c.words == 3);'
            )
        ],
    ),
    Task(
        id="c-count-guard",
        kind="guard clause",
        path=_COUNT,
        instruction="`average_word` should return 0 if there are no words.",
        may_change=["average_word"],
        reference=[
            Replace(
                "    return (double)(c->bytes",
                "    if (c->words == 0)\n        return 0;\n    return (double)(c->bytes",
            )
        ],
        wrong=[
            [
                Replace(
                    "    return (double)(c->bytes",
                    "    if (c->bytes == 0)\n        return 0;\n    return (double)(c->bytes",
                )
            ]
        ],
        checks=[
            runs(
                "struct counts none = {0, 0, 3}, some = {1, 2, 9};\n"
                "assert(average_word(&none) == 0); assert(average_word(&some) == 4);"
            )
        ],
    ),
    Task(
        id="c-count-rename-variable",
        kind="rename",
        path=_COUNT,
        instruction="Rename the variable `inside` in `count_text` to `in_word`.",
        may_change=["count_text"],
        reference=[Everywhere("inside", "in_word")],
        wrong=[[Replace("int inside = 0;", "int in_word = 0;")]],
        checks=[
            gone("inside"),
            has("count_text", r"\bin_word\b"),
            runs('struct counts c = count_text("one two\\n"); assert(c.words == 2);'),
        ],
    ),
    Task(
        id="c-count-macro",
        kind="constant",
        path=_COUNT,
        instruction="Replace the number 4096 in `count_file` with a macro LINE_SIZE.",
        may_change=["count_file"],
        additions="anything",
        reference=[
            Replace("#include <string.h>\n", "#include <string.h>\n\n#define LINE_SIZE 4096\n"),
            Replace("char line[4096];", "char line[LINE_SIZE];"),
        ],
        wrong=[[Replace("char line[4096];", "char line[LINE_SIZE];")]],
        checks=[
            lacks("count_file", r"4096"),
            has("count_file", r"line\[LINE_SIZE\]"),
            runs("assert(LINE_SIZE == 4096);"),
        ],
    ),
    Task(
        id="c-count-last-line",
        kind="bug fix",
        path=_COUNT,
        instruction="`longest_line` forgets the last line when no newline follows it; compare its "
        "length after the loop.",
        may_change=["longest_line"],
        reference=[
            Replace(
                "    return longest;\n",
                "    if (length > longest)\n        longest = length;\n    return longest;\n",
            )
        ],
        wrong=[[Replace("    return longest;\n", "    return length;\n")]],
        checks=[
            runs(
                'assert(longest_line("ab\\nabcd") == 4 && longest_line("abc\\na") == 3);\n'
                'assert(longest_line("") == 0 && longest_line("abc\\n") == 3);'
            )
        ],
    ),
)

_STRING_MAP = (
    Task(
        id="c-map-terminator",
        kind="bug fix",
        path=_MAP,
        instruction="`copy_string` allocates no room for the terminating zero; fix it.",
        may_change=["copy_string"],
        reference=[Replace("malloc(strlen(text))", "malloc(strlen(text) + 1)")],
        wrong=[[Replace("malloc(strlen(text))", "malloc(strlen(text + 1))")]],
        checks=[
            runs(
                'char *s = copy_string("abc"); assert(strcmp(s, "abc") == 0 && last_size == 4);',
                _FAILING_MALLOC,
            )
        ],
    ),
    Task(
        id="c-map-macro",
        kind="constant",
        path=_MAP,
        instruction="Define a macro BUCKETS for the number 64 and use it everywhere in the file.",
        may_change=[Word("64")],
        additions="anything",
        reference=[
            Everywhere("64", "BUCKETS"),
            Replace("#include <string.h>\n", "#include <string.h>\n\n#define BUCKETS 64\n"),
        ],
        wrong=[
            [
                Replace("*buckets[64]", "*buckets[BUCKETS]"),
                Replace("#include <string.h>\n", "#include <string.h>\n\n#define BUCKETS 64\n"),
            ]
        ],
        checks=[
            lacks("map", r"\b64\b"),
            lacks("lookup", r"\b64\b"),
            lacks("map_set", r"\b64\b"),
            lacks("map_sum", r"\b64\b"),
            lacks("map_clear", r"\b64\b"),
            runs(
                "assert(BUCKETS == 64); struct map m; map_init(&m); "
                'map_set(&m, "a", 3); assert(map_sum(&m) == 3); map_clear(&m);'
            ),
        ],
    ),
    Task(
        id="c-map-return-directly",
        kind="simplify",
        path=_MAP,
        instruction="Simplify `map_has` to a single return statement.",
        may_change=["map_has"],
        reference=[
            Replace(
                "    struct node *node = lookup(map, key);\n"
                "    if (node != NULL) {\n"
                "        return true;\n"
                "    } else {\n"
                "        return false;\n"
                "    }\n",
                "    return lookup(map, key) != NULL;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    struct node *node = lookup(map, key);\n"
                    "    if (node != NULL) {\n"
                    "        return true;\n"
                    "    } else {\n"
                    "        return false;\n"
                    "    }\n",
                    "    return map_get(map, key) != 0;\n",
                )
            ]
        ],
        checks=[
            lacks_node("map_has", "if_statement"),
            runs(
                'struct map m; map_init(&m); map_set(&m, "a", 0);\n'
                'assert(map_has(&m, "a") && !map_has(&m, "b"));'
            ),
        ],
    ),
    Task(
        id="c-map-parameter",
        kind="signature",
        path=_MAP,
        instruction="Add a parameter `int fallback` to `map_get` that is returned when the key is "
        "missing.",
        may_change=["map_get"],
        reference=[
            Replace(
                "int map_get(const struct map *map, const char *key)",
                "int map_get(const struct map *map, const char *key, int fallback)",
            ),
            Replace("node == NULL ? 0 :", "node == NULL ? fallback :"),
        ],
        wrong=[
            [
                Replace(
                    "int map_get(const struct map *map, const char *key)",
                    "int map_get(const struct map *map, const char *key, int fallback)",
                )
            ]
        ],
        checks=[
            runs(
                'struct map m; map_init(&m); map_set(&m, "a", 5);\n'
                'assert(map_get(&m, "a", 9) == 5 && map_get(&m, "b", 9) == 9);'
            )
        ],
    ),
    Task(
        id="c-map-rename-parameter",
        kind="rename",
        path=_MAP,
        instruction="Rename the parameter `m` of `map_sum` to `map`.",
        may_change=["map_sum"],
        reference=[
            Replace("map_sum(struct map *m)", "map_sum(struct map *map)"),
            Replace("m->buckets[i]; node", "map->buckets[i]; node"),
        ],
        wrong=[[Replace("map_sum(struct map *m)", "map_sum(struct map *map)")]],
        checks=[
            gone("m"),
            has("map_sum", r"struct map ?\* ?map\)"),
            runs('struct map x; map_init(&x); map_set(&x, "a", 3); assert(map_sum(&x) == 3);'),
        ],
    ),
)

_SERIES = "std::vector<double> v = {3, 1, 2};\n"

_STATISTICS_TASKS = (
    Task(
        id="cpp-statistics-accumulate",
        kind="loop to library call",
        path=_STATISTICS,
        instruction="Use std::accumulate in `sum` instead of the loop.",
        may_change=["sum"],
        reference=[
            Replace(
                "    double total = 0;\n"
                "    for (size_t i = 0; i < values.size(); i++) {\n"
                "        total += values[i];\n"
                "    }\n"
                "    return total;\n",
                "    return std::accumulate(values.begin(), values.end(), 0.0);\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    double total = 0;\n"
                    "    for (size_t i = 0; i < values.size(); i++) {\n"
                    "        total += values[i];\n"
                    "    }\n"
                    "    return total;\n",
                    "    return std::accumulate(values.begin(), values.end(), 0);\n",
                )
            ]
        ],
        checks=[
            has("sum", r"\baccumulate\("),
            lacks_node("sum", "for_statement", "for_range_loop"),
            runs("assert(stats::sum({0.5, 0.75}) == 1.25 && stats::sum({}) == 0);"),
        ],
    ),
    Task(
        id="cpp-statistics-max-element",
        kind="loop to library call",
        path=_STATISTICS,
        instruction="Rewrite `largest` with std::max_element.",
        may_change=["largest"],
        reference=[
            Replace(
                "    double result = values[0];\n"
                "    for (size_t i = 1; i < values.size(); i++) {\n"
                "        if (values[i] > result) {\n"
                "            result = values[i];\n"
                "        }\n"
                "    }\n"
                "    return result;\n",
                "    return *std::max_element(values.begin(), values.end());\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    double result = values[0];\n"
                    "    for (size_t i = 1; i < values.size(); i++) {\n"
                    "        if (values[i] > result) {\n"
                    "            result = values[i];\n"
                    "        }\n"
                    "    }\n"
                    "    return result;\n",
                    "    return *std::min_element(values.begin(), values.end());\n",
                )
            ]
        ],
        checks=[
            has("largest", r"\bmax_element\("),
            lacks_node("largest", "for_statement", "for_range_loop"),
            runs(_SERIES + "assert(stats::largest(v) == 3);"),
        ],
    ),
    Task(
        id="cpp-statistics-const-reference",
        kind="const and readonly",
        path=_STATISTICS,
        instruction="Take the parameter of `variance` by const reference.",
        may_change=["variance"],
        reference=[
            Replace(
                "double variance(std::vector<double> values)",
                "double variance(const std::vector<double>& values)",
            )
        ],
        wrong=[
            [
                Replace(
                    "double variance(std::vector<double> values)",
                    "double variance(std::vector<double>& values)",
                )
            ]
        ],
        checks=[
            has("variance", r"\(const std::vector<double> ?& ?values\)"),
            runs("assert(stats::variance({1, 3}) == 1);"),
        ],
    ),
    Task(
        id="cpp-statistics-guard",
        kind="guard clause",
        path=_STATISTICS,
        instruction="Throw std::invalid_argument in `mean` if there are no values.",
        may_change=["mean"],
        reference=[
            Replace(
                "    return sum(values) / values.size();\n",
                "    if (values.empty()) {\n"
                '        throw std::invalid_argument("no values");\n'
                "    }\n"
                "    return sum(values) / values.size();\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    return sum(values) / values.size();\n",
                    "    if (values.empty()) {\n        return 0;\n    }\n"
                    "    return sum(values) / values.size();\n",
                )
            ]
        ],
        checks=[
            runs(
                _SERIES + "assert(stats::mean(v) == 2); bool thrown = false;\n"
                "try { stats::mean({}); } catch (const std::invalid_argument&) { thrown = true; }\n"
                "assert(thrown);"
            )
        ],
    ),
    Task(
        id="cpp-statistics-ternary",
        kind="simplify",
        path=_STATISTICS,
        instruction="Use the conditional operator in `verdict` instead of if and else.",
        may_change=["verdict"],
        reference=[
            Replace(
                "    if (value > limit) {\n"
                '        return "slow";\n'
                "    } else {\n"
                '        return "fine";\n'
                "    }\n",
                '    return value > limit ? "slow" : "fine";\n',
            )
        ],
        wrong=[
            [
                Replace(
                    "    if (value > limit) {\n"
                    '        return "slow";\n'
                    "    } else {\n"
                    '        return "fine";\n'
                    "    }\n",
                    '    return value > limit ? "fine" : "slow";\n',
                )
            ]
        ],
        checks=[
            has_node("verdict", "conditional_expression"),
            lacks_node("verdict", "if_statement"),
            runs('assert(stats::verdict(2, 1) == "slow" && stats::verdict(1, 1) == "fine");'),
        ],
    ),
    Task(
        id="cpp-statistics-rename-variable",
        kind="rename",
        path=_STATISTICS,
        instruction="Rename the variable `n` to `count`.",
        selected=Between("int n = 0;", "return n;"),
        may_change=["count_above"],
        reference=[
            Replace("int n = 0;", "int count = 0;"),
            Replace("            n++;", "            count++;"),
            Replace("return n;", "return count;"),
        ],
        wrong=[[Replace("int n = 0;", "int count = 0;"), Replace("return n;", "return count;")]],
        checks=[
            gone("n"),
            has("count_above", r"\bint count = 0;"),
            runs(_SERIES + "assert(stats::count_above(v, 1) == 2);"),
        ],
    ),
)

_LRU_CACHE = (
    Task(
        id="cpp-lru-boundary",
        kind="bug fix",
        path=_LRU,
        instruction="`put` drops an entry one too early: it may only drop when there are more "
        "entries than the capacity.",
        may_change=["LruCache.put"],
        reference=[Replace("entries_.size() >= capacity_", "entries_.size() > capacity_")],
        wrong=[[Replace("entries_.size() >= capacity_", "entries_.size() == capacity_")]],
        checks=[
            runs(
                'LruCache c(2); c.put("a", "1"); c.put("b", "2"); assert(c.size() == 2);\n'
                'c.put("c", "3"); assert(c.size() == 2 && !c.contains("a") && c.contains("c"));'
            )
        ],
    ),
    Task(
        id="cpp-lru-const",
        kind="const and readonly",
        path=_LRU,
        instruction="Make the method `size` const.",
        may_change=["LruCache.size"],
        reference=[Replace("std::size_t size() {", "std::size_t size() const {")],
        wrong=[[Replace("std::size_t size() {", "const std::size_t size() {")]],
        checks=[runs("const LruCache c(2); assert(c.size() == 0);")],
    ),
    Task(
        id="cpp-lru-range-for",
        kind="simplify",
        path=_LRU,
        instruction="Use a range-based for loop in `print`.",
        may_change=["LruCache.print"],
        reference=[
            Replace(
                "        for (std::list<std::pair<std::string, std::string>>::const_iterator it = "
                "entries_.begin();\n"
                "             it != entries_.end(); ++it) {\n"
                '            std::cout << it->first << "=" << it->second << "\\n";\n',
                "        for (const auto& entry : entries_) {\n"
                '            std::cout << entry.first << "=" << entry.second << "\\n";\n',
            )
        ],
        wrong=[
            [
                Replace(
                    "        for (std::list<std::pair<std::string, std::string>>::const_iterator "
                    "it = entries_.begin();\n"
                    "             it != entries_.end(); ++it) {\n"
                    '            std::cout << it->first << "=" << it->second << "\\n";\n',
                    "        for (const auto& entry : entries_) {\n"
                    '            std::cout << entry.first << "\\n";\n',
                )
            ]
        ],
        checks=[
            has_node("LruCache.print", "for_range_loop"),
            lacks_node("LruCache.print", "for_statement"),
            runs(
                "std::ostringstream out; auto* old = std::cout.rdbuf(out.rdbuf());\n"
                'LruCache c(9); c.put("a", "1"); c.put("b", "2"); c.print();\n'
                'std::cout.rdbuf(old); assert(out.str() == "b=2\\na=1\\n");',
                "#include <sstream>",
            ),
        ],
    ),
    Task(
        id="cpp-lru-guard",
        kind="guard clause",
        path=_LRU,
        instruction="Let `hit_rate` return 0.0 when there were no hits and no misses yet.",
        may_change=["LruCache.hit_rate"],
        reference=[
            Replace(
                "        return static_cast<double>(hits_)",
                "        if (hits_ + misses_ == 0) {\n"
                "            return 0.0;\n"
                "        }\n"
                "        return static_cast<double>(hits_)",
            )
        ],
        wrong=[
            [
                Replace(
                    "        return static_cast<double>(hits_)",
                    "        if (misses_ == 0) {\n"
                    "            return 0.0;\n"
                    "        }\n"
                    "        return static_cast<double>(hits_)",
                )
            ]
        ],
        checks=[
            runs(
                'LruCache c(9); assert(c.hit_rate() == 0); c.put("a", "1"); c.get("a");\n'
                'assert(c.hit_rate() == 1); c.get("b"); assert(c.hit_rate() == 0.5);'
            )
        ],
    ),
)

_TOKENIZER_TASKS = (
    Task(
        id="cpp-tokenizer-rename-function",
        kind="rename",
        path=_TOKENIZER,
        instruction="Rename the function `calc` to `apply_operator` and update its call.",
        may_change=[Word("calc")],
        reference=[Everywhere("calc", "apply_operator")],
        wrong=[[Replace("int calc(int left", "int apply_operator(int left")]],
        checks=[
            gone("calc"),
            runs("assert(apply_operator(6, '/', 2) == 3 && evaluate(\"1 + 2 * 3\") == 9);"),
        ],
    ),
    Task(
        id="cpp-tokenizer-division",
        kind="error handling",
        path=_TOKENIZER,
        instruction="Throw a std::runtime_error in `calc` on division by zero.",
        may_change=["calc"],
        reference=[
            Replace(
                "            return left / right;\n",
                "            if (right == 0) {\n"
                '                throw std::runtime_error("division by zero");\n'
                "            }\n"
                "            return left / right;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "            return left / right;\n",
                    "            return right == 0 ? 0 : left / right;\n",
                )
            ]
        ],
        checks=[
            runs(
                "assert(calc(7, '/', 2) == 3 && calc(7, '*', 0) == 0); bool thrown = false;\n"
                "try { calc(1, '/', 0); } catch (const std::runtime_error&) { thrown = true; }\n"
                "assert(thrown);"
            )
        ],
    ),
    Task(
        id="cpp-tokenizer-default",
        kind="default value",
        path=_TOKENIZER,
        instruction='Give the parameter `separator` of `join` the default " ".',
        may_change=["join"],
        reference=[
            Replace(
                "const std::string& separator) {",
                'const std::string& separator = " ") {',
            )
        ],
        wrong=[
            [Replace("const std::string& separator) {", 'const std::string& separator = "") {')]
        ],
        checks=[
            runs('assert(join(tokenize("1+2")) == "1 + 2" && join(tokenize("1+2"), "") == "1+2");')
        ],
    ),
    Task(
        id="cpp-tokenizer-balanced",
        kind="bug fix",
        path=_TOKENIZER,
        instruction='`balanced` accepts ")("; return false as soon as depth is negative.',
        may_change=["balanced"],
        reference=[
            Replace(
                "            depth--;\n",
                "            depth--;\n"
                "            if (depth < 0) {\n"
                "                return false;\n"
                "            }\n",
            )
        ],
        wrong=[[Replace("return depth == 0;", "return depth >= 0;")]],
        checks=[
            runs(
                'assert(balanced("(a(b))") && balanced("") && !balanced("(("));\n'
                'assert(!balanced(")(") && !balanced("())("));'
            )
        ],
    ),
    Task(
        id="cpp-tokenizer-extract",
        kind="extract",
        path=_TOKENIZER,
        instruction="Write a function `bool is_digit(char c)` and use it in `tokenize` instead of "
        "std::isdigit.",
        may_change=["tokenize"],
        additions="anything",
        reference=[
            Replace(
                "std::vector<Token> tokenize(",
                "bool is_digit(char c) {\n"
                "    return std::isdigit(static_cast<unsigned char>(c)) != 0;\n"
                "}\n\n"
                "std::vector<Token> tokenize(",
            ),
            Replace(
                "else if (std::isdigit(static_cast<unsigned char>(c)))", "else if (is_digit(c))"
            ),
            Replace("std::isdigit(static_cast<unsigned char>(text[i]))", "is_digit(text[i])"),
        ],
        wrong=[
            [
                Replace(
                    "else if (std::isdigit(static_cast<unsigned char>(c)))",
                    "else if (is_digit(c))",
                )
            ]
        ],
        checks=[
            lacks("tokenize", r"isdigit"),
            has("tokenize", r"\bis_digit\("),
            runs("assert(is_digit('7') && !is_digit('a') && evaluate(\"12+30\") == 42);"),
        ],
    ),
    Task(
        id="cpp-tokenizer-const-reference",
        kind="const and readonly",
        path=_TOKENIZER,
        instruction="Pass the tokens to `count_kind` by const reference instead of by value.",
        may_change=["count_kind"],
        reference=[
            Replace(
                "count_kind(std::vector<Token> tokens,",
                "count_kind(const std::vector<Token>& tokens,",
            )
        ],
        wrong=[
            [
                Replace(
                    "count_kind(std::vector<Token> tokens,",
                    "count_kind(const std::vector<Token> tokens,",
                )
            ]
        ],
        checks=[
            has("count_kind", r"\(const std::vector<Token> ?& ?tokens,"),
            runs('assert(count_kind(tokenize("1+2"), Kind::Number) == 2);'),
        ],
    ),
)

TASKS: tuple[Task, ...] = (
    *_RING_BUFFER,
    *_WORD_COUNT,
    *_STRING_MAP,
    *_STATISTICS_TASKS,
    *_LRU_CACHE,
    *_TOKENIZER_TASKS,
)
