"""Tools as functions: what is offered, what is called, and patches that are always well-formed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.engines import patches
from vivace.conversation.deltas import CallOpened
from vivace.engines.tool_forms import ToolForms, _Change, _patch, _read_patch
from vivace.protocol.items import (
    CustomTool,
    CustomToolCall,
    FunctionCall,
    FunctionTool,
    Grammar,
    NamespaceTool,
    Tool,
)
from vivace.protocol.requests import AllowedTools, NamedTool, Toolbox, ToolChoice, ToolMode

PATCH = CustomTool("apply_patch", "Patches.", Grammar("grammar", "lark", 'start: "x"'))
FREE = CustomTool("free", "Takes anything.")
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = FunctionTool("read", "Reads.", PATH)
GIT = NamespaceTool("git", [FunctionTool("log"), CustomTool("query")])


def forms(*tools: Tool, choice: ToolChoice = "auto") -> ToolForms:
    return ToolForms(Toolbox(tools), choice)


def offered(tools: ToolForms) -> list[str]:
    return [each["function"]["name"] for each in tools.declarations()]


def patched(arguments: dict[str, Any]) -> str:
    return forms(PATCH).rewrite("apply_patch", json.dumps(arguments))


# -- what is offered ------------------------------------------------------------------------------

_names = st.sampled_from("abcdef")
_tools = st.lists(
    st.one_of(st.builds(FunctionTool, _names), st.builds(CustomTool, _names)),
    max_size=5,
    unique_by=lambda tool: tool.name,
)
_spaced = st.builds(NamespaceTool, st.sampled_from(["m", "n"]), _tools)
_boxes = st.tuples(_tools, st.lists(_spaced, max_size=2, unique_by=lambda space: space.name)).map(
    lambda parts: Toolbox((*parts[0], *parts[1]))
)
_modes: st.SearchStrategy[ToolMode] = st.sampled_from(["none", "auto", "required"])
_named = st.builds(NamedTool, st.sampled_from(["function", "custom"]), _names)
_choices: st.SearchStrategy[ToolChoice] = st.one_of(
    _modes, _named, st.builds(AllowedTools, tools=st.lists(_named, max_size=3), mode=_modes)
)


def may_call(tool: FunctionTool | CustomTool, choice: ToolChoice) -> bool:
    """What the API says, written down a second time."""
    if isinstance(choice, str):
        return choice != "none"
    kind = "custom" if isinstance(tool, CustomTool) else "function"
    if isinstance(choice, NamedTool):
        return (choice.type, choice.name) == (kind, tool.name)
    return choice.mode != "none" and NamedTool(kind, tool.name) in choice.tools  # type: ignore[arg-type]


@given(_boxes, _choices)
def test_no_tool_is_offered_that_the_choice_excludes_and_none_is_withheld(
    box: Toolbox, choice: ToolChoice
) -> None:
    allowed = [
        f"{space}__{tool.name}" if space else tool.name
        for space, tool in box.flat()
        if may_call(tool, choice)
    ]
    assert offered(ToolForms(box, choice)) == allowed


@given(_boxes, _choices)
def test_every_declaration_is_a_function_with_a_schema(box: Toolbox, choice: ToolChoice) -> None:
    for declaration in ToolForms(box, choice).declarations():
        assert declaration["type"] == "function"
        assert set(declaration["function"]) == {"name", "description", "parameters"}
        jsonschema_rs.validator_for(declaration["function"]["parameters"])


def test_a_namespace_is_part_of_the_name_the_model_sees_and_not_of_the_clients() -> None:
    tools = forms(GIT)
    assert offered(tools) == ["git__log", "git__query"]
    assert tools.opened("git__log", "c") == CallOpened("log", False, "git", "c")
    assert tools.opened("git__query", "c") == CallOpened("query", True, "git", "c")


def test_a_tool_that_nobody_offered_keeps_its_name() -> None:
    assert forms(READ).opened("made_up", "c") == CallOpened("made_up", call_id="c")
    assert not forms(READ).rewrites("made_up")


# -- a call that must be made ---------------------------------------------------------------------


@given(_boxes.filter(lambda box: any(True for _ in box.flat())))
def test_only_a_call_of_an_offered_tool_obeys_the_schema(box: Toolbox) -> None:
    tools = ToolForms(box, "required")
    schema = jsonschema_rs.validator_for(tools.forced_schema())
    for declaration in tools.declarations():
        function = declaration["function"]
        values = dict.fromkeys(function["parameters"].get("required", []), "x")
        assert schema.is_valid({"name": function["name"], "arguments": values})
        assert not schema.is_valid({"name": function["name"]})
        assert function["name"] in tools.forced_request()
    assert not schema.is_valid({"name": "made_up", "arguments": {}})
    assert not schema.is_valid("text")


def test_shared_definitions_stand_where_they_are_looked_for() -> None:
    parameters = {
        "type": "object",
        "properties": {"where": {"$ref": "#/$defs/place"}},
        "required": ["where"],
        "$defs": {"place": {"type": "string"}},
    }
    tools = forms(FunctionTool("go", None, parameters), READ, choice="required")
    schema = jsonschema_rs.validator_for(tools.forced_schema())
    assert schema.is_valid({"name": "go", "arguments": {"where": "here"}})
    assert not schema.is_valid({"name": "go", "arguments": {"where": 7}})


def test_definitions_of_two_tools_are_kept_apart() -> None:
    def tool(name: str, kind: str) -> FunctionTool:
        place = {"$defs": {"place": {"type": kind}}}
        properties = {"where": {"$ref": "#/$defs/place"}}
        return FunctionTool(name, None, {"type": "object", "properties": properties, **place})

    tools = forms(tool("go", "string"), tool("jump", "integer"), choice="required")
    schema = jsonschema_rs.validator_for(tools.forced_schema())
    assert schema.is_valid({"name": "go", "arguments": {"where": "here"}})
    assert schema.is_valid({"name": "jump", "arguments": {"where": 7}})


@pytest.mark.parametrize(
    ("answer", "call"),
    [
        ('{"name": "read", "arguments": {"path": "a"}}', ("read", '{"path": "a"}')),
        ('{"name": "read", "argum', None),
        ('{"name": "read"}', None),
        ("", None),
        ("text", None),
    ],
)
def test_a_forced_call_is_read_from_its_text(answer: str, call: tuple[str, str] | None) -> None:
    assert forms(READ, choice="required").forced_call(answer) == call


# -- free text ------------------------------------------------------------------------------------


@given(st.text())
def test_free_text_comes_through_as_it_is(text: str) -> None:
    tools = forms(FREE)
    item = CustomToolCall(call_id="c", name="free", input=text)
    name, arguments = tools.call(item)
    assert (name, json.loads(arguments)) == ("free", {"input": text})
    assert tools.rewrite(name, arguments) == text


@given(st.text())
def test_arguments_that_cannot_be_read_are_passed_on(text: str) -> None:
    try:
        readable = "input" in json.loads(text)
    except (ValueError, TypeError):
        readable = False
    assume(not readable)
    assert forms(FREE).rewrite("free", text) == text


def test_a_function_call_of_the_past_is_told_as_it_was() -> None:
    call = FunctionCall(call_id="c", name="log", arguments='{"n": 1}', namespace="git")
    assert forms(GIT).call(call) == ("git__log", '{"n": 1}')


def test_a_call_of_a_tool_that_is_gone_keeps_its_name() -> None:
    call = CustomToolCall(call_id="c", name="apply_patch", input="*** Begin Patch")
    assert forms(READ).call(call) == ("apply_patch", '{"input":"*** Begin Patch"}')


# -- patches --------------------------------------------------------------------------------------

# What a model writes: lines with anything in them, and now and then what a patch is made of.
_marks = st.sampled_from(
    ["*** End Patch", "*** Begin Patch", "@@", "+", "-", "", " ", "\x0c", "\r"]
)
_line = st.one_of(st.text(st.characters(exclude_characters="\n", codec="utf-8")), _marks)
_text = st.lists(_line, max_size=6).map("\n".join)
_paths = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)


@given(_paths, _text, _text)
def test_whatever_the_model_changes_the_patch_is_well_formed(path: str, old: str, new: str) -> None:
    assert patches.problems(patched({"path": path, "old": old, "new": new})) == []


@pytest.mark.parametrize(
    "path", ["", "a\n*** Delete File: b", "a.py\n", "\n"], ids=["empty", "two", "newline", "only"]
)
def test_a_path_that_could_touch_a_second_file_makes_no_patch(path: str) -> None:
    change = {"path": path, "old": "x", "new": "y"}
    assert json.loads(patched(change)) == change  # passed on as the model wrote it


@given(_paths, _text, _text)
def test_reading_a_patch_is_the_inverse_of_writing_it(path: str, old: str, new: str) -> None:
    text = _patch(_Change(path, old, new))
    change = _read_patch(text)
    assert change is not None
    assert change.path == path
    assert _patch(change) == text


# Blank lines at the ends are what a careless writer loses.
_lines = st.lists(st.sampled_from(["a", "b", "", "  c", "@@", "-d"]), min_size=1, max_size=5)


@given(_lines, _lines)
def test_a_patch_does_to_the_file_what_the_model_asked_for(old: list[str], new: list[str]) -> None:
    around = ["def first():", "    return 1"], ["def last():", "    return 2"]
    before = "\n".join([*around[0], *old, *around[1]]) + "\n"
    assume(any(old))
    text = patched({"path": "a", "old": "\n".join(old) + "\n", "new": "\n".join(new) + "\n"})
    try:
        after = patches.applied(text, before)
    except AssertionError:
        assume(False)  # the old lines stand in the file twice
    assert after == "\n".join([*around[0], *new, *around[1]]) + "\n"


@pytest.mark.parametrize("new", ["a", "a\n", "a\n\n", "", "\n", "a\nb\n"])
def test_a_new_file_has_the_lines_it_was_given_and_no_other(new: str) -> None:
    text = patched({"path": "a.py", "old": "", "new": new})
    assert patches.problems(text) == []
    assert patches.applied(text, "") == (new if new.endswith("\n") else f"{new}\n")


def test_lines_that_stay_are_context() -> None:
    text = patched({"path": "a.py", "old": "a\nb\nc\n", "new": "a\nB\nc\n"})
    body = ["*** Update File: a.py", "@@", " a", "-b", "+B", " c"]
    assert text == "\n".join(["*** Begin Patch", *body, "*** End Patch"])


def test_lines_can_be_taken_away() -> None:
    text = patched({"path": "a.py", "old": "a\nb", "new": "a"})
    assert "-b" in text.split("\n")
    assert "+" not in text.replace("*** ", "")


def test_arguments_that_are_no_change_are_passed_on() -> None:
    assert forms(PATCH).rewrite("apply_patch", '{"path": 7}') == '{"path": 7}'
    assert forms(PATCH).rewrite("apply_patch", '{"path": "a", "ol') == '{"path": "a", "ol'


@pytest.mark.parametrize(
    "body",
    [
        ["*** Delete File: a"],
        ["*** Add File: a", "+x", "*** Add File: b", "+y"],
        ["*** Update File: a", "*** Move to: b", "@@", "-x", "+y"],
        ["*** Update File: a", "@@", "-x", "+y", "@@ def other():", "-z", "+w"],
    ],
    ids=["deletion", "two files", "move", "two hunks"],
)
def test_a_patch_that_we_could_not_have_asked_for_is_told_as_it_is(body: list[str]) -> None:
    text = "\n".join(["*** Begin Patch", *body, "*** End Patch"])
    assert patches.problems(text) == []
    call = CustomToolCall(call_id="c", name="apply_patch", input=text)
    assert json.loads(forms(PATCH).call(call)[1]) == {"input": text}


@given(st.text() | _text)
def test_no_past_input_of_a_patch_breaks_the_next_request(text: str) -> None:
    wrapped = f"*** Begin Patch\n*** Add File: a\n{text}\n*** End Patch"
    for each in (text, wrapped):
        call = CustomToolCall(call_id="c", name="apply_patch", input=each)
        assert json.loads(forms(PATCH).call(call)[1])


def test_a_long_patch_is_read_in_no_time() -> None:
    """In a process of its own, because a regular expression cannot be interrupted."""
    program = (
        "from vivace.engines.tool_forms import _read_patch\n"
        "lines = '+' + ' ' * 60 + 'x'\n"
        "patch = f'*** Begin Patch\\n*** Add File: a\\n{lines}\\n*** Delete File: b\\n'\n"
        "assert _read_patch(patch + '*** End Patch') is None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
