"""Tasks on TypeScript files."""

from __future__ import annotations

from bench.edit_tasks.checks import documented, gone, has, has_node, lacks, lacks_node, runs
from bench.edit_tasks.task import Between, Everywhere, Replace, Task, Word

__all__ = ["TASKS"]

_LIMITER = "rateLimiter.ts"
_CART = "shoppingCart.ts"
_QUERY = "queryString.ts"
_BUS = "eventBus.ts"
_BOARD = "taskBoard.ts"
_MATRIX = "matrix.ts"

_TEA = "const tea = { id: 't', name: 'Tea', price: 500 };\n"

_RATE_LIMITER = (
    Task(
        id="typescript-limiter-boundary",
        kind="bug fix",
        path=_LIMITER,
        instruction="`check` must allow a request whose cost equals the tokens that are left.",
        may_change=["RateLimiter.check"],
        reference=[Replace("bucket.tokens > cost", "bucket.tokens >= cost")],
        wrong=[[Replace("bucket.tokens > cost", "bucket.tokens < cost")]],
        checks=[
            runs(
                "const limiter = new RateLimiter(2, 1, { now: () => 0 });\n"
                "assert.equal(limiter.check('a', 1).allowed, true);\n"
                "assert.equal(limiter.check('a', 1).allowed, true);\n"
                "assert.deepEqual(limiter.check('a', 1), "
                "{ allowed: false, remaining: 0, retryAfter: 1000 });"
            )
        ],
    ),
    Task(
        id="typescript-limiter-constant",
        kind="constant",
        path=_LIMITER,
        instruction="Replace the number 3600000 in `prune` with a constant IDLE_MS at the top of "
        "the file.",
        may_change=["RateLimiter.prune"],
        additions="anything",
        reference=[
            Replace("export interface Clock", "const IDLE_MS = 3600000;\n\nexport interface Clock"),
            Replace("> 3600000", "> IDLE_MS"),
        ],
        wrong=[[Replace("> 3600000", "> this.IDLE_MS")]],
        checks=[
            lacks("RateLimiter", r"3600000|3_600_000"),
            has("RateLimiter.prune", r"\bIDLE_MS\b"),
            runs(
                "assert.equal(IDLE_MS, 3600000);\n"
                "let now = 0; const limiter = new RateLimiter(2, 1, { now: () => now });\n"
                "limiter.check('a', 1); now = 3600000; assert.equal(limiter.prune(), 0);\n"
                "now += 1; assert.equal(limiter.prune(), 1);"
            ),
        ],
    ),
    Task(
        id="typescript-limiter-return-type",
        kind="type hints",
        path=_LIMITER,
        instruction="Add the return type to `prune`.",
        may_change=["RateLimiter.prune"],
        reference=[Replace("prune() {", "prune(): number {")],
        wrong=[[Replace("prune() {", "prune(): void {")]],
        checks=[
            has("RateLimiter.prune", r"^\s*(public\s+)?prune\(\)\s*:\s*number\s*\{"),
            runs("assert.equal(new RateLimiter(1, 1).prune(), 0);"),
        ],
    ),
    Task(
        id="typescript-limiter-readonly",
        kind="const and readonly",
        path=_LIMITER,
        instruction="Make these three fields readonly.",
        selected=Between("private capacity: number;", "private clock: Clock;"),
        may_change=[Between("private capacity: number;", "private clock: Clock;")],
        reference=[
            Replace("private capacity", "private readonly capacity"),
            Replace("private perSecond", "private readonly perSecond"),
            Replace("private clock", "private readonly clock"),
        ],
        wrong=[[Replace("private capacity", "private readonly capacity")]],
        checks=[
            has("RateLimiter", r"private readonly capacity: number;"),
            has("RateLimiter", r"private readonly perSecond: number;"),
            has("RateLimiter", r"private readonly clock: Clock;"),
        ],
    ),
    Task(
        id="typescript-limiter-default",
        kind="default value",
        path=_LIMITER,
        instruction="Give the parameter `cost` of `check` the default value 1.",
        may_change=["RateLimiter.check"],
        reference=[Replace("cost: number):", "cost: number = 1):")],
        wrong=[[Replace("cost: number):", "cost?: number):")]],
        checks=[
            has("RateLimiter.check", r"\bcost(: number)? = 1\b"),
            runs(
                "const limiter = new RateLimiter(5, 1, { now: () => 0 });\n"
                "assert.equal(limiter.check('a').remaining, 4);\n"
                "assert.equal(limiter.check('a', 2).remaining, 2);"
            ),
        ],
    ),
)

_SHOPPING_CART = (
    Task(
        id="typescript-cart-rename-method",
        kind="rename",
        path=_CART,
        instruction="Rename the method `calcTotal` to `total` everywhere.",
        may_change=[Word("calcTotal")],
        reference=[Everywhere("calcTotal", "total")],
        wrong=[[Replace("calcTotal(): number", "total(): number")]],
        checks=[
            gone("calcTotal"),
            runs(
                _TEA + "const cart = new Cart(); cart.add(tea, 2);\n"
                "assert.equal(cart.total(), 1490);\n"
                "assert.equal(cart.summary(), '1 products, $14.90');\n"
                "assert.equal(receipt(cart), '2 x Tea\\ntotal $14.90');"
            ),
        ],
    ),
    Task(
        id="typescript-cart-guard",
        kind="guard clause",
        path=_CART,
        instruction="Throw a RangeError in `Cart.add` if the quantity is less than 1.",
        may_change=["Cart.add"],
        reference=[
            Replace(
                "    const line = this.lines.find",
                "    if (quantity < 1) {\n"
                '      throw new RangeError("quantity must be at least 1");\n'
                "    }\n"
                "    const line = this.lines.find",
            )
        ],
        wrong=[
            [
                Replace(
                    "    const line = this.lines.find",
                    "    if (quantity < 0) {\n"
                    '      throw new RangeError("quantity must be at least 1");\n'
                    "    }\n"
                    "    const line = this.lines.find",
                )
            ]
        ],
        checks=[
            runs(
                _TEA + "const cart = new Cart(); cart.add(tea, 1); cart.add(tea, 2);\n"
                "assert.throws(() => cart.add(tea, 0), RangeError);\n"
                "assert.equal(cart.lines[0].quantity, 3); assert.equal(cart.lines.length, 1);"
            )
        ],
    ),
    Task(
        id="typescript-cart-reduce",
        kind="loop to library call",
        path=_CART,
        instruction="Use reduce in `subtotal` instead of the loop.",
        may_change=["Cart.subtotal"],
        reference=[
            Replace(
                "    let sum = 0;\n"
                "    for (const line of this.lines) {\n"
                "      sum += line.product.price * line.quantity;\n"
                "    }\n"
                "    return sum;\n",
                "    return this.lines.reduce((sum, line) => "
                "sum + line.product.price * line.quantity, 0);\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    let sum = 0;\n"
                    "    for (const line of this.lines) {\n"
                    "      sum += line.product.price * line.quantity;\n"
                    "    }\n"
                    "    return sum;\n",
                    "    return this.lines.reduce((sum, line) => sum + line.product.price, 0);\n",
                )
            ]
        ],
        checks=[
            has("Cart.subtotal", r"\.reduce\("),
            lacks_node("Cart.subtotal", "for_in_statement", "for_statement"),
            runs(
                _TEA + "const cart = new Cart(); assert.equal(cart.subtotal(), 0);\n"
                "cart.add(tea, 3); assert.equal(cart.subtotal(), 1500);"
            ),
        ],
    ),
    Task(
        id="typescript-cart-filter-map",
        kind="comprehension",
        path=_CART,
        instruction="Rewrite `expensive` with filter and map.",
        may_change=["expensive"],
        reference=[
            Replace(
                "  const names: string[] = [];\n"
                "  for (const product of products) {\n"
                "    if (product.price >= limit) {\n"
                "      names.push(product.name);\n"
                "    }\n"
                "  }\n"
                "  return names;\n",
                "  return products.filter((product) => product.price >= limit)"
                ".map((product) => product.name);\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "  const names: string[] = [];\n"
                    "  for (const product of products) {\n"
                    "    if (product.price >= limit) {\n"
                    "      names.push(product.name);\n"
                    "    }\n"
                    "  }\n"
                    "  return names;\n",
                    "  return products.map((p) => p.name).filter((p) => p.price >= limit);\n",
                )
            ]
        ],
        checks=[
            has("expensive", r"\.filter\("),
            has("expensive", r"\.map\("),
            lacks_node("expensive", "for_in_statement", "for_statement"),
            runs(
                _TEA + "assert.deepEqual(expensive([tea], 500), ['Tea']);\n"
                "assert.deepEqual(expensive([tea], 501), []);"
            ),
        ],
    ),
    Task(
        id="typescript-cart-field",
        kind="add a field",
        path=_CART,
        instruction="Add an optional field `weight` of type number to the interface `Product`.",
        may_change=["Product"],
        reference=[Replace("  price: number;\n", "  price: number;\n  weight?: number;\n")],
        wrong=[[Replace("  price: number;\n", "  price: number;\n  weight: string;\n")]],
        checks=[
            has("Product", r"\bweight\?\s*:\s*number\b"),
            has("Product", r"id: string;\s+name: string;\s+price: number;"),
        ],
    ),
    Task(
        id="typescript-cart-documentation",
        kind="documentation",
        path=_CART,
        instruction="Add a JSDoc comment to `formatPrice` that explains what it returns.",
        may_change=["formatPrice"],
        reference=[
            Replace(
                "export function formatPrice",
                "/** Formats an amount in cents as a price in dollars. */\n"
                "export function formatPrice",
            )
        ],
        wrong=[
            [
                Replace(
                    '  return "$"',
                    '  /** Formats an amount in cents as a price in dollars. */\n  return "$"',
                )
            ]
        ],
        checks=[
            documented("formatPrice", "price", "cents", "dollar", "format", "amount"),
            runs("assert.equal(formatPrice(1999), '$19.99');"),
        ],
    ),
    Task(
        id="typescript-cart-not-a-number",
        kind="error handling",
        path=_CART,
        instruction="Let `parseQuantity` return 0 when the text is not a number.",
        may_change=["parseQuantity"],
        reference=[Replace("  return value;\n", "  return Number.isNaN(value) ? 0 : value;\n")],
        wrong=[[Replace("  return value;\n", "  return value === NaN ? 0 : value;\n")]],
        checks=[
            runs(
                "assert.equal(parseQuantity('12'), 12); assert.equal(parseQuantity('-3'), -3);\n"
                "assert.equal(parseQuantity('many'), 0); assert.equal(parseQuantity(''), 0);"
            )
        ],
    ),
)

_QUERY_STRING = (
    Task(
        id="typescript-query-types",
        kind="type hints",
        path=_QUERY,
        instruction="Add types to `parse`: the parameter is a string, and it returns a Query.",
        may_change=["parse"],
        reference=[Replace("function parse(text) {", "function parse(text: string): Query {")],
        wrong=[[Replace("function parse(text) {", "function parse(text: string): string {")]],
        checks=[
            has("parse", r"parse\(text: string\): Query \{"),
            runs("assert.deepEqual(parse('?a=1&b&a=2+3'), { a: ['1', '2 3'], b: [''] });"),
        ],
    ),
    Task(
        id="typescript-query-early-return",
        kind="early return",
        path=_QUERY,
        instruction="Flatten the nested ifs in `first` with an early return.",
        may_change=["first"],
        reference=[
            Replace(
                "  if (values !== undefined) {\n"
                "    if (values.length > 0) {\n"
                "      return values[0];\n"
                "    }\n"
                "  }\n"
                "  return undefined;\n",
                "  if (values === undefined || values.length === 0) {\n"
                "    return undefined;\n"
                "  }\n"
                "  return values[0];\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "  if (values !== undefined) {\n    if (values.length > 0) {\n"
                    "      return values[0];\n    }\n  }\n  return undefined;\n",
                    "  if (values.length === 0) {\n    return undefined;\n  }\n"
                    "  return values[0];\n",
                )
            ]
        ],
        checks=[
            lacks("first", r"if \([^{]*\{\s*if"),
            runs(
                "assert.equal(first({ a: ['1', '2'] }, 'a'), '1');\n"
                "assert.equal(first({ a: [] }, 'a'), undefined);\n"
                "assert.equal(first({}, 'a'), undefined);"
            ),
        ],
    ),
    Task(
        id="typescript-query-return-directly",
        kind="simplify",
        path=_QUERY,
        instruction="Simplify `getFlag`: return the condition directly.",
        may_change=["getFlag"],
        reference=[
            Replace(
                '  if (text === "1" || text === "true" || text === "yes") {\n'
                "    return true;\n"
                "  } else {\n"
                "    return false;\n"
                "  }\n",
                '  return text === "1" || text === "true" || text === "yes";\n',
            )
        ],
        wrong=[
            [
                Replace(
                    '  if (text === "1" || text === "true" || text === "yes") {\n'
                    "    return true;\n  } else {\n    return false;\n  }\n",
                    '  return text === "1" || text === "true";\n',
                )
            ]
        ],
        checks=[
            lacks_node("getFlag", "if_statement"),
            runs(
                "for (const [text, want] of [['1', true], ['yes', true], ['true', true], "
                "['no', false]])\n  assert.equal(getFlag({ a: [text] }, 'a'), want);\n"
                "assert.equal(getFlag({}, 'a'), false);"
            ),
        ],
    ),
    Task(
        id="typescript-query-try",
        kind="error handling",
        path=_QUERY,
        instruction="Wrap the body of `decode` in try/catch and return the text unchanged if "
        "decoding fails.",
        may_change=["decode"],
        reference=[
            Replace(
                '  return decodeURIComponent(text.replace(/\\+/g, " "));\n',
                "  try {\n"
                '    return decodeURIComponent(text.replace(/\\+/g, " "));\n'
                "  } catch {\n"
                "    return text;\n"
                "  }\n",
            )
        ],
        wrong=[
            [
                Replace(
                    '  return decodeURIComponent(text.replace(/\\+/g, " "));\n',
                    "  try {\n"
                    '    return decodeURIComponent(text.replace(/\\+/g, " "));\n'
                    '  } catch {\n    return "";\n  }\n',
                )
            ]
        ],
        checks=[
            has_node("decode", "catch_clause"),
            runs("assert.equal(decode('a%20b+c'), 'a b c'); assert.equal(decode('100%'), '100%');"),
        ],
    ),
    Task(
        id="typescript-query-rename-parameters",
        kind="rename",
        path=_QUERY,
        instruction="Rename the parameters `a` and `b` of `merge` to `base` and `extra`.",
        may_change=["merge"],
        reference=[
            Replace("merge(a: Query, b: Query)", "merge(base: Query, extra: Query)"),
            Replace("Object.keys(a)", "Object.keys(base)"),
            Replace("a[key].slice()", "base[key].slice()"),
            Replace("Object.keys(b)", "Object.keys(extra)"),
            Replace(".concat(b[key])", ".concat(extra[key])"),
        ],
        wrong=[[Replace("merge(a: Query, b: Query)", "merge(base: Query, extra: Query)")]],
        checks=[
            gone("a"),
            gone("b"),
            has("merge", r"\(base: Query, extra: Query\)"),
            runs(
                "assert.deepEqual(merge({ x: ['1'] }, { x: ['2'], y: ['3'] }), "
                "{ x: ['1', '2'], y: ['3'] });"
            ),
        ],
    ),
)

_EVENT_BUS = (
    Task(
        id="typescript-bus-boundary",
        kind="bug fix",
        path=_BUS,
        instruction="`subscribe` lets in one listener more than maxListeners; fix the comparison.",
        may_change=["EventBus.subscribe"],
        reference=[Replace("list.length > this", "list.length >= this")],
        wrong=[[Replace("list.length > this", "list.length < this")]],
        checks=[
            runs(
                "const bus = new EventBus({ maxListeners: 2 });\n"
                "bus.on('a', () => {}); bus.on('a', () => {});\n"
                "assert.throws(() => bus.on('a', () => {}), /too many/);\n"
                "assert.equal(bus.count('a'), 2);"
            )
        ],
    ),
    Task(
        id="typescript-bus-try",
        kind="error handling",
        path=_BUS,
        instruction="In `emit`, catch an error that a listener throws and give it to "
        "this.options.onError.",
        may_change=["EventBus.emit"],
        reference=[
            Replace(
                "      sub.listener(payload);\n",
                "      try {\n"
                "        sub.listener(payload);\n"
                "      } catch (error) {\n"
                "        this.options.onError(error);\n"
                "      }\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "      sub.listener(payload);\n",
                    "      try {\n        sub.listener(payload);\n      } catch (error) {}\n",
                )
            ]
        ],
        checks=[
            has_node("EventBus.emit", "catch_clause"),
            runs(
                "const seen = []; const bus = new EventBus({ onError: (e) => seen.push(e) });\n"
                "bus.on('a', () => { throw 7; }); bus.on('a', (p) => seen.push(p));\n"
                "bus.emit('a', 1); assert.deepEqual(seen, [7, 1]);\n"
                "assert.equal(bus.emit('b', 1), 0);"
            ),
        ],
    ),
    Task(
        id="typescript-bus-optional-chaining",
        kind="simplify",
        path=_BUS,
        instruction="Rewrite `count` as one return statement with ?. and ??.",
        may_change=["EventBus.count"],
        reference=[
            Replace(
                "    const list = this.subscriptions.get(name);\n"
                "    return list ? list.length : 0;\n",
                "    return this.subscriptions.get(name)?.length ?? 0;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    const list = this.subscriptions.get(name);\n"
                    "    return list ? list.length : 0;\n",
                    "    return this.subscriptions.get(name).length ?? 0;\n",
                )
            ]
        ],
        checks=[
            has("EventBus.count", r"\?\."),
            has("EventBus.count", r"\?\?"),
            lacks("EventBus.count", r"\bconst\b"),
            runs(
                "const bus = new EventBus(); assert.equal(bus.count('a'), 0);\n"
                "bus.on('a', () => {}); assert.equal(bus.count('a'), 1);"
            ),
        ],
    ),
    Task(
        id="typescript-bus-rename-variable",
        kind="rename",
        path=_BUS,
        instruction="Rename `place` to `index`.",
        selected=Between("const place = list.indexOf(sub);", "list.splice(place, 1);"),
        may_change=["EventBus.drop"],
        reference=[Everywhere("place", "index")],
        wrong=[[Replace("const place =", "const index =")]],
        checks=[
            gone("place"),
            has("EventBus.drop", r"const index = list\.indexOf\(sub\)"),
            runs(
                "const bus = new EventBus(); const off = bus.on('a', () => {}); off(); off();\n"
                "assert.equal(bus.count('a'), 0);"
            ),
        ],
    ),
)

_TASK_BOARD = (
    Task(
        id="typescript-board-guard",
        kind="guard clause",
        path=_BOARD,
        instruction="Let `move` throw an Error if there is no task with this id.",
        may_change=["Board.move"],
        reference=[
            Replace(
                "    task!.status = status;\n",
                "    if (task === undefined) {\n"
                "      throw new Error(`no task with id ${id}`);\n"
                "    }\n"
                "    task.status = status;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    task!.status = status;\n",
                    "    if (task) {\n      task.status = status;\n    }\n",
                )
            ]
        ],
        checks=[
            has("Board.move", r"\bthrow new Error\("),
            runs(
                "const board = new Board(); board.create('a', []); board.move(1, 'done');\n"
                "assert.equal(board.find(1).status, 'done');\n"
                "assert.throws(() => board.move(9, 'done'), "
                "(e) => e instanceof Error && !(e instanceof TypeError));"
            ),
        ],
    ),
    Task(
        id="typescript-board-const",
        kind="const and readonly",
        path=_BOARD,
        instruction="Use const and let instead of var in `titles`.",
        may_change=["Board.titles"],
        reference=[
            Replace("var result", "const result"),
            Replace("(var i = 0", "(let i = 0"),
        ],
        wrong=[
            [
                Replace("var result", "const result"),
                Replace("(var i = 0", "(const i = 0"),
            ]
        ],
        checks=[
            lacks("Board.titles", r"\bvar\b"),
            has("Board.titles", r"\bconst\b"),
            runs(
                "const board = new Board(); board.create('a', []); board.create('b', []);\n"
                "assert.deepEqual(board.titles(), ['a', 'b']);"
            ),
        ],
    ),
    Task(
        id="typescript-board-template-literal",
        kind="f-string",
        path=_BOARD,
        instruction="Use a template literal in `label`.",
        may_change=["label"],
        reference=[
            Replace(
                '"#" + task.id + " " + task.title + " (" + task.status + ")"',
                "`#${task.id} ${task.title} (${task.status})`",
            )
        ],
        wrong=[
            [
                Replace(
                    '"#" + task.id + " " + task.title + " (" + task.status + ")"',
                    "`${task.id} ${task.title} (${task.status})`",
                )
            ]
        ],
        checks=[
            has_node("label", "template_substitution"),
            lacks("label", r"\+"),
            runs(
                "assert.equal(label({ id: 3, title: 'x', status: 'open', tags: [] }), "
                "'#3 x (open)');"
            ),
        ],
    ),
    Task(
        id="typescript-board-empty",
        kind="guard clause",
        path=_BOARD,
        instruction="`progress` gives NaN for an empty board; return 0 in that case.",
        may_change=["Board.progress"],
        reference=[
            Replace(
                '    const done = this.byStatus("done").length;\n',
                "    if (this.tasks.length === 0) {\n"
                "      return 0;\n"
                "    }\n"
                '    const done = this.byStatus("done").length;\n',
            )
        ],
        wrong=[
            [
                Replace(
                    "(done / this.tasks.length)",
                    "(done / (this.tasks.length + 1))",
                )
            ]
        ],
        checks=[
            runs(
                "const board = new Board(); assert.equal(board.progress(), 0);\n"
                "board.create('a', []); board.create('b', []); assert.equal(board.progress(), 0);\n"
                "board.move(1, 'done'); assert.equal(board.progress(), 50);"
            )
        ],
    ),
    Task(
        id="typescript-board-parameter",
        kind="signature",
        path=_BOARD,
        instruction="Add a parameter `size` with the default 20 to `pageOf` and use it instead of "
        "the number.",
        may_change=["pageOf"],
        reference=[
            Replace("page: number): Task[]", "page: number, size: number = 20): Task[]"),
            Replace("(page - 1) * 20, page * 20", "(page - 1) * size, page * size"),
        ],
        wrong=[
            [
                Replace("page: number): Task[]", "page: number, size: number = 20): Task[]"),
                Replace("(page - 1) * 20, page * 20", "(page - 1) * size, page * 20"),
            ]
        ],
        checks=[
            lacks("pageOf", r"\* 20\b"),
            runs(
                "const many = Array.from({ length: 45 }, (_, i) => i);\n"
                "assert.deepEqual(pageOf(many, 3), [40, 41, 42, 43, 44]);\n"
                "assert.deepEqual(pageOf(many, 2, 2), [2, 3]);"
            ),
        ],
    ),
    Task(
        id="typescript-board-arrow",
        kind="simplify",
        path=_BOARD,
        instruction="Use an arrow function in `sortByTitle`.",
        may_change=["sortByTitle"],
        reference=[
            Replace(
                ".sort(function (a, b) {\n    return a.title.localeCompare(b.title);\n  });",
                ".sort((a, b) => a.title.localeCompare(b.title));",
            )
        ],
        wrong=[
            [
                Replace(
                    ".sort(function (a, b) {\n    return a.title.localeCompare(b.title);\n  });",
                    ".sort((a, b) => b.title.localeCompare(a.title));",
                )
            ]
        ],
        checks=[
            has_node("sortByTitle", "arrow_function"),
            lacks_node("sortByTitle", "function_expression"),
            runs(
                "assert.deepEqual(sortByTitle([{ title: 'b' }, { title: 'a' }]), "
                "[{ title: 'a' }, { title: 'b' }]);"
            ),
        ],
    ),
)

_MATRIX_TASKS = (
    Task(
        id="typescript-matrix-boundary",
        kind="bug fix",
        path=_MATRIX,
        instruction="`trace` reads one row too many; fix the loop.",
        may_change=["Matrix.trace"],
        reference=[Replace("i <= this.rows", "i < this.rows")],
        wrong=[[Replace("i <= this.rows", "i < this.rows - 1")]],
        checks=[runs("assert.equal(new Matrix(2, 2, [1, 2, 3, 4]).trace(), 5);")],
    ),
    Task(
        id="typescript-matrix-rename-parameter",
        kind="rename",
        path=_MATRIX,
        instruction="Rename the parameter `v` of `set` to `value`.",
        may_change=["Matrix.set"],
        reference=[Replace("v: number", "value: number"), Replace("] = v;", "] = value;")],
        wrong=[[Replace("v: number", "value: number")]],
        checks=[
            gone("v"),
            has("Matrix.set", r"value: number\)"),
            runs("const m = new Matrix(2, 2); m.set(1, 0, 7); assert.equal(m.get(1, 0), 7);"),
        ],
    ),
    Task(
        id="typescript-matrix-guard",
        kind="guard clause",
        path=_MATRIX,
        instruction="Throw an Error in `multiply` if the columns of this matrix are not as many as "
        "the rows of the other.",
        may_change=["Matrix.multiply"],
        reference=[
            Replace(
                "    const result = new Matrix(this.rows, other.cols);\n",
                "    if (this.cols !== other.rows) {\n"
                '      throw new Error("sizes do not fit");\n'
                "    }\n"
                "    const result = new Matrix(this.rows, other.cols);\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "    const result = new Matrix(this.rows, other.cols);\n",
                    "    if (this.rows !== other.cols) {\n"
                    '      throw new Error("sizes do not fit");\n'
                    "    }\n"
                    "    const result = new Matrix(this.rows, other.cols);\n",
                )
            ]
        ],
        checks=[
            runs(
                "const row = new Matrix(1, 2, [1, 2]);\n"
                "const tall = new Matrix(2, 3, [1, 2, 3, 4, 5, 6]);\n"
                "assert.equal(row.multiply(tall).toString(), '9 12 15');\n"
                "assert.throws(() => tall.multiply(row), Error);\n"
                "assert.throws(() => new Matrix(2, 1).multiply(new Matrix(2, 2)), Error);"
            )
        ],
    ),
)

TASKS: tuple[Task, ...] = (
    *_RATE_LIMITER,
    *_SHOPPING_CART,
    *_QUERY_STRING,
    *_EVENT_BUS,
    *_TASK_BOARD,
    *_MATRIX_TASKS,
)
