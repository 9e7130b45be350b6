"""Held-out tasks on TypeScript files."""

from __future__ import annotations

from bench.edit_tasks.checks import gone, has, has_node, lacks, lacks_node, runs
from bench.edit_tasks.task import Between, Everywhere, Replace, Task, Word

__all__ = ["TASKS"]

_HISTORY = "undoHistory.ts"
_FORM = "formRules.ts"

_WRITING = (
    "let text = '';\n"
    "const write = (letter) => ({ label: letter, apply() { text += letter; }, "
    "revert() { text = text.slice(0, -1); } });\n"
)
_WRITTEN = (
    _WRITING + "const history = new UndoHistory(); history.run(write('a')); "
    "history.run(write('b'));\nlet told = 0; history.subscribe(() => { told += 1; });\n"
)

_UNDO_HISTORY = (
    Task(
        id="typescript-history-early-return",
        kind="early return",
        path=_HISTORY,
        instruction="Write `undo` like redo: return false first if there is nothing to undo, "
        "without an else.",
        may_change=["UndoHistory.undo"],
        reference=[
            Replace(
                "    if (cmd !== undefined) {\n"
                "      cmd.revert();\n"
                "      this.redoStack.push(cmd);\n"
                "      this.notify();\n"
                "      return true;\n"
                "    } else {\n"
                "      return false;\n"
                "    }\n",
                "    if (cmd === undefined) {\n"
                "      return false;\n"
                "    }\n"
                "    cmd.revert();\n"
                "    this.redoStack.push(cmd);\n"
                "    this.notify();\n"
                "    return true;\n",
            )
        ],
        wrong=[
            [Replace("    } else {\n      return false;\n    }\n", "    }\n    return false;\n")],
            [
                Replace(
                    "    if (cmd !== undefined) {\n      cmd.revert();\n"
                    "      this.redoStack.push(cmd);\n      this.notify();\n      return true;\n"
                    "    } else {\n      return false;\n    }\n",
                    "    if (cmd === undefined) {\n      return false;\n    }\n"
                    "    cmd.revert();\n    this.redoStack.push(cmd);\n    return true;\n",
                )
            ],
        ],
        checks=[
            lacks_node("UndoHistory.undo", "else_clause"),
            has("UndoHistory.undo", r"(?s)return false.*\.revert\("),
            runs(
                _WRITTEN + "assert.equal(history.undo(), true); assert.equal(text, 'a');\n"
                "assert.equal(told, 1); assert.equal(history.canRedo, true);\n"
                "assert.equal(history.undo(), true); assert.equal(history.undo(), false);\n"
                "assert.equal(text, ''); assert.equal(told, 2);"
            ),
        ],
    ),
    Task(
        id="typescript-history-rename-variable",
        kind="rename",
        path=_HISTORY,
        instruction="rename cmd to command",
        selected=Between("const cmd = this.redoStack.pop();", "return true;"),
        may_change=["UndoHistory.redo"],
        reference=[
            Replace("const cmd = this.redoStack.pop();", "const command = this.redoStack.pop();"),
            Replace("if (cmd === undefined)", "if (command === undefined)"),
            Replace("cmd.apply();", "command.apply();"),
            Replace("this.undoStack.push(cmd);", "this.undoStack.push(command);"),
        ],
        wrong=[
            [Replace("const cmd = this.redoStack.pop();", "const command = this.redoStack.pop();")]
        ],
        checks=[
            lacks("UndoHistory.redo", r"\bcmd\b"),
            has("UndoHistory.redo", r"\bconst command\b"),
            runs(
                _WRITTEN + "assert.equal(history.redo(), false); history.undo();\n"
                "assert.equal(history.redo(), true); assert.equal(text, 'ab');"
            ),
        ],
    ),
    Task(
        id="typescript-history-template-literal",
        kind="f-string",
        path=_HISTORY,
        instruction="Use a template string in `undoLabel`.",
        may_change=["UndoHistory.undoLabel"],
        reference=[Replace('"Undo " + last.label', "`Undo ${last.label}`")],
        wrong=[[Replace('"Undo " + last.label', "`Undo${last.label}`")]],
        checks=[
            has_node("UndoHistory.undoLabel", "template_substitution"),
            lacks("UndoHistory.undoLabel", r"\+"),
            runs(
                _WRITTEN + "assert.equal(history.undoLabel(), 'Undo b');\n"
                "assert.equal(new UndoHistory().undoLabel(), 'Undo');"
            ),
        ],
    ),
    Task(
        id="typescript-history-redo-label",
        kind="bug fix",
        path=_HISTORY,
        instruction="redoLabel shows the wrong command. It has to be the one that redo would apply "
        "next, which is the last of the redo stack.",
        may_change=["UndoHistory.redoLabel"],
        reference=[
            Replace("this.redoStack[0]", "this.redoStack[this.redoStack.length - 1]"),
        ],
        wrong=[[Replace("this.redoStack[0]", "this.redoStack[this.redoStack.length]")]],
        checks=[
            runs(
                _WRITTEN + "assert.equal(history.redoLabel(), 'Redo');\n"
                "history.undo(); assert.equal(history.redoLabel(), 'Redo b');\n"
                "history.undo(); assert.equal(history.redoLabel(), 'Redo a');\n"
                "assert.equal(history.redo(), true); assert.equal(text, 'a');"
            )
        ],
    ),
    Task(
        id="typescript-history-readonly",
        kind="const and readonly",
        path=_HISTORY,
        instruction="`limit` is never changed after the constructor, so make it readonly.",
        may_change=["UndoHistory.constructor"],
        reference=[Replace("private limit: number", "private readonly limit: number")],
        wrong=[[Replace("private limit: number", "readonly limit: number")]],
        checks=[
            has("UndoHistory", r"private\s+readonly\s+limit\b"),
            runs(
                _WRITING + "const history = new UndoHistory(1); history.run(write('a'));\n"
                "history.run(write('b')); history.undo(); assert.equal(history.canUndo, false);\n"
                "assert.equal(new UndoHistory().limit, 100);"
            ),
        ],
    ),
    Task(
        id="typescript-history-types",
        kind="type hints",
        path=_HISTORY,
        instruction="Add types to the two parameters of `transaction`: a string and an array of "
        "Command.",
        may_change=["transaction"],
        reference=[
            Replace(
                "transaction(label, commands)", "transaction(label: string, commands: Command[])"
            )
        ],
        wrong=[
            [
                Replace(
                    "transaction(label, commands)",
                    "transaction(label: string, commands: Command)",
                )
            ]
        ],
        checks=[
            has(
                "transaction",
                r"transaction\(\s*label\s*:\s*string,\s*commands\s*:\s*"
                r"((readonly )?Command\[\]|(Readonly)?Array<Command>),?\s*\)\s*:\s*Command\s*\{",
            ),
            runs(
                _WRITTEN + "history.run(transaction('both', [write('c'), write('d')]));\n"
                "assert.equal(text, 'abcd'); assert.equal(history.undoLabel(), 'Undo both');\n"
                "history.undo(); assert.equal(text, 'ab');"
            ),
        ],
    ),
)

_FORM_RULES = (
    Task(
        id="typescript-form-rename-method",
        kind="rename",
        path=_FORM,
        instruction="Rename the method addRule to addRules, and its callers with it.",
        may_change=[Word("addRule")],
        reference=[Everywhere("addRule", "addRules")],
        wrong=[
            [
                Replace("addRule(field: string", "addRules(field: string"),
                Replace('addRule("name"', 'addRules("name"'),
            ]
        ],
        checks=[
            gone("addRule"),
            runs(
                "const form = new FormValidator().addRules('a', required);\n"
                "assert.deepEqual(form.validate({}), [{ field: 'a', message: 'is required' }]);\n"
                "const typed = { name: 'A', email: 'a@b.c', password: '12345678', "
                "repeat: '12345678' };\n"
                "assert.equal(signUpForm().isValid(typed), true);\n"
                "assert.equal(signUpForm().isValid({ ...typed, repeat: '' }), false);\n"
                "assert.equal(signUpForm().validate({ repeat: 'x' }).length, 4);"
            ),
        ],
    ),
    Task(
        id="typescript-form-field",
        kind="add a field",
        path=_FORM,
        instruction="Add an optional `hint` (a string) to Problem.",
        may_change=["Problem"],
        reference=[Replace("  message: string;\n", "  message: string;\n  hint?: string;\n")],
        wrong=[[Replace("  message: string;\n", "  message: string;\n  hint: string;\n")]],
        checks=[
            has("Problem", r"\bhint\?\s*:\s*string\s*[;,\n}]"),
            has("Problem", r"\bfield: string\b"),
            has("Problem", r"\bmessage: string\b"),
        ],
    ),
    Task(
        id="typescript-form-guard",
        kind="guard clause",
        path=_FORM,
        instruction="`minLength` should throw a RangeError right away when it is called with a "
        "length below 1.",
        may_change=["minLength"],
        reference=[
            Replace(
                "export function minLength(length: number): Rule {\n",
                "export function minLength(length: number): Rule {\n"
                "  if (length < 1) {\n"
                '    throw new RangeError("length must be at least 1");\n'
                "  }\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "export function minLength(length: number): Rule {\n",
                    "export function minLength(length: number): Rule {\n"
                    "  if (length <= 1) {\n"
                    '    throw new RangeError("length must be at least 1");\n'
                    "  }\n",
                )
            ]
        ],
        checks=[
            runs(
                "assert.throws(() => minLength(0), RangeError);\n"
                "assert.throws(() => minLength(-2), RangeError);\n"
                "assert.equal(minLength(1)('', {}), 'needs at least 1 characters');\n"
                "assert.equal(minLength(2)('ab', {}), null);"
            )
        ],
    ),
    Task(
        id="typescript-form-find",
        kind="loop to library call",
        path=_FORM,
        instruction="Replace the loop in `firstProblem` by a call of find.",
        may_change=["firstProblem"],
        reference=[
            Replace(
                "  for (const problem of problems) {\n"
                "    if (problem.field === field) {\n"
                "      return problem.message;\n"
                "    }\n"
                "  }\n"
                "  return undefined;\n",
                "  return problems.find((problem) => problem.field === field)?.message;\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "  for (const problem of problems) {\n"
                    "    if (problem.field === field) {\n"
                    "      return problem.message;\n"
                    "    }\n"
                    "  }\n"
                    "  return undefined;\n",
                    "  return problems.find((problem) => problem.field === field).message;\n",
                )
            ]
        ],
        checks=[
            has("firstProblem", r"\.find\("),
            lacks_node("firstProblem", "for_in_statement", "for_statement"),
            runs(
                "const found = [{ field: 'a', message: '1' }, { field: 'b', message: '2' }, "
                "{ field: 'b', message: '3' }];\n"
                "assert.equal(firstProblem(found, 'b'), '2');\n"
                "assert.equal(firstProblem(found, 'c'), undefined);\n"
                "assert.equal(firstProblem([], 'a'), undefined);"
            ),
        ],
    ),
    Task(
        id="typescript-form-draft",
        kind="error handling",
        path=_FORM,
        instruction="A broken draft in local storage must not break the page: return an empty "
        "object from loadDraft when the stored text is not valid JSON.",
        may_change=["loadDraft"],
        reference=[
            Replace(
                "  return JSON.parse(stored);\n",
                "  try {\n    return JSON.parse(stored);\n  } catch {\n    return {};\n  }\n",
            )
        ],
        wrong=[
            [
                Replace(
                    "  return JSON.parse(stored);\n",
                    "  try {\n    return JSON.parse(stored);\n  } catch {\n    return null;\n  }\n",
                )
            ],
            [Replace("  return JSON.parse(stored);\n", "  return JSON.parse(stored) ?? {};\n")],
        ],
        checks=[
            has_node("loadDraft", "catch_clause"),
            runs(
                "assert.deepEqual(loadDraft('{\"name\": \"A\"}'), { name: 'A' });\n"
                "assert.deepEqual(loadDraft('{\"name'), {}); assert.deepEqual(loadDraft(''), {});\n"
                "assert.deepEqual(loadDraft(null), {});"
            ),
        ],
    ),
)

TASKS: tuple[Task, ...] = (*_UNDO_HISTORY, *_FORM_RULES)
