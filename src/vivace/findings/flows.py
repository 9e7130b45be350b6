"""How values pass from name to name in each language, in one table: what taint follows.

Node types and fields are the grammar's. A call hands on what it is called on, as methods of texts
do; what it is called with only if its name is listed, since most functions look something up or
compute something, and what they return is no longer what others chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["FLOWS", "Flow"]


class Flow(Struct, frozen=True, kw_only=True, eq=False):
    """One row."""

    functions: frozenset[str]
    names: frozenset[str]
    bindings: Mapping[str, tuple[str, str]]
    """What binds a name -> its fields: the target, the value."""
    patterns: frozenset[str] = frozenset()
    """Targets that have several names in them."""
    keys: frozenset[str] = frozenset()
    """What stands in a pattern and is no name of its own."""
    loops: frozenset[str] = frozenset()
    """Which of the bindings bind before their other parts are run."""
    aliases: frozenset[str] = frozenset()
    """``VALUE as NAME``: the first part is bound to the last."""
    members: Mapping[str, tuple[str, str]]
    """``a.b`` -> the fields of a and b."""
    items: Mapping[str, str]
    """``a[b]`` -> the field of a; b only chooses."""
    calls: Mapping[str, tuple[str, str, str]]
    """The field of what is called (or its name), of the arguments, and, where the grammar has it
    apart, of what a method is called on."""
    conditions: Mapping[str, str]
    """What has a condition -> its field; without one, the first part after the keyword."""
    choices: frozenset[str] = frozenset()
    """``a if b else c``: what is chosen passes, the condition does not."""
    comprehensions: frozenset[str] = frozenset()
    clauses: frozenset[str] = frozenset()
    """What comes after the value of a comprehension and runs before it."""
    values: frozenset[str] = frozenset()
    """``name: value`` and the like: only the field ``value`` passes."""
    statements: frozenset[str] = frozenset({"expression_statement"})
    blocks: frozenset[str]
    branches: frozenset[str]
    """Above a block: it may not be run."""
    harmless: frozenset[str]
    """Never tainted, whatever is in it: comparisons, numbers, functions as values."""
    operators: frozenset[str] = frozenset({"==", "!=", "<", ">", "<=", ">=", "!", "&&", "||"})
    """What they make is never tainted."""
    passing: frozenset[str]
    """Functions and methods that hand on what they are called with."""
    counts: frozenset[str] = frozenset()
    """Members that are numbers."""
    mapping: frozenset[str] = frozenset()
    """Methods that return what the function they are called with makes of each value."""
    growing: frozenset[str] = frozenset()
    """Methods after which what they are called on has what they are called with."""
    last_is_value: bool = False
    """Whether the last expression of a block is its value."""
    methods_stand_alone: bool = False
    """Whether methods are defined beside their type, so that one of the file is called on whatever
    has it."""
    reading: frozenset[str] = frozenset()
    """Functions and methods that write what they are called on, or with, to what they are handed
    the address of."""
    checks_by_result: bool = False
    """Whether a check tells by what it returns, so that one whose result is given a name counts."""
    macros: frozenset[str] = frozenset()
    """What may have names in braces in its texts."""
    filling: frozenset[str] = frozenset()
    """Functions that write what they are called with to their first argument."""
    addresses: frozenset[str] = frozenset()
    """``&a``, as which that may be handed over."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PYTHON = Flow(
    functions=_set("function_definition lambda"),
    names=_set("identifier"),
    bindings={
        "assignment": ("left", "right"),
        "augmented_assignment": ("left", "right"),
        "named_expression": ("name", "value"),
        "for_statement": ("left", "right"),
        "for_in_clause": ("left", "right"),
    },
    patterns=_set("pattern_list tuple_pattern list_pattern list_splat_pattern as_pattern_target"),
    loops=_set("for_statement for_in_clause"),
    aliases=_set("as_pattern"),
    members={"attribute": ("object", "attribute")},
    items={"subscript": "value"},
    calls={"call": ("function", "arguments", "")},
    conditions={
        "if_statement": "condition",
        "elif_clause": "condition",
        "while_statement": "condition",
        "assert_statement": "",
    },
    choices=_set("conditional_expression"),
    comprehensions=_set(
        "list_comprehension set_comprehension dictionary_comprehension generator_expression"
    ),
    clauses=_set("for_in_clause if_clause"),
    values=_set("keyword_argument pair"),
    blocks=_set("block module"),
    branches=_set(
        "if_statement elif_clause else_clause while_statement for_statement try_statement "
        "except_clause finally_clause case_clause"
    ),
    harmless=_set("comparison_operator not_operator integer float lambda function_definition"),
    passing=_set(
        "str repr format join Path PurePath PosixPath PurePosixPath fspath abspath realpath "
        "normpath expanduser expandvars joinpath b64decode urlsafe_b64decode standard_b64decode "
        "b32decode unquote unquote_plus unhexlify fromhex decompress bytes bytearray memoryview "
        "BytesIO StringIO list tuple set dict sorted reversed enumerate zip iter next map "
        "filter getattr chain concat force_str smart_str force_bytes text literal_column "
        "Template dedent indent cast deepcopy copy urljoin urlunparse urlunsplit urlsplit "
        "urlparse Request URL Markup SQL loads load reader DictReader max min mark_safe "
        "markdown to_thread"
    ),
    growing=_set("append extend add insert appendleft update setdefault write writelines"),
)
_SCRIPT = Flow(
    functions=_set(
        "function_declaration generator_function_declaration function_expression "
        "generator_function arrow_function method_definition"
    ),
    names=_set("identifier shorthand_property_identifier shorthand_property_identifier_pattern"),
    bindings={
        "variable_declarator": ("name", "value"),
        "assignment_expression": ("left", "right"),
        "augmented_assignment_expression": ("left", "right"),
        "for_in_statement": ("left", "right"),
    },
    patterns=_set(
        "object_pattern array_pattern pair_pattern rest_pattern assignment_pattern "
        "object_assignment_pattern"
    ),
    keys=_set("property_identifier"),
    loops=_set("for_in_statement"),
    members={"member_expression": ("object", "property")},
    items={"subscript_expression": "object"},
    calls={
        "call_expression": ("function", "arguments", ""),
        "new_expression": ("constructor", "arguments", ""),
    },
    conditions={
        "if_statement": "condition",
        "while_statement": "condition",
        "ternary_expression": "condition",
    },
    choices=_set("ternary_expression"),
    values=_set("pair"),
    blocks=_set("statement_block program"),
    branches=_set(
        "if_statement else_clause while_statement for_statement for_in_statement try_statement "
        "catch_clause finally_clause switch_case"
    ),
    harmless=_set(
        "number regex arrow_function function_expression function_declaration "
        "generator_function class class_declaration"
    ),
    operators=_set("== != === !== < > <= >= ! in instanceof typeof - * / %"),
    passing=_set(
        "String decodeURIComponent decodeURI unescape atob from concat join resolve normalize "
        "format parse URL Request URLSearchParams fileURLToPath of assign stringify all Array "
        "Object entries values keys marked sprintf exec match matchAll"
    ),
    counts=_set("length size"),
    mapping=_set("map flatMap"),
    growing=_set("push unshift add set append splice write concat"),
)
_C = Flow(
    functions=_set("function_definition lambda_expression"),
    names=_set("identifier"),
    bindings={
        "init_declarator": ("declarator", "value"),
        "assignment_expression": ("left", "right"),
        "for_range_loop": ("declarator", "right"),
    },
    patterns=_set(
        "pointer_declarator array_declarator reference_declarator pointer_expression "
        "parenthesized_expression structured_binding_declarator"
    ),
    loops=_set("for_range_loop"),
    members={"field_expression": ("argument", "field")},
    items={"subscript_expression": "argument"},
    calls={"call_expression": ("function", "arguments", "")},
    conditions={"if_statement": "condition", "while_statement": "condition"},
    choices=_set("conditional_expression"),
    blocks=_set("compound_statement translation_unit"),
    branches=_set(
        "if_statement else_clause while_statement for_statement do_statement case_statement "
        "try_statement catch_clause for_range_loop"
    ),
    harmless=_set("number_literal sizeof_expression lambda_expression"),
    passing=_set(
        "string to_string c_str str strdup strndup strchr strrchr strstr strtok string_view "
        "format move append substr data path atoi atol atoll strtol strtoul strtoull stoi stol "
        "stoul stoll ntohl ntohs static_cast size"
    ),
    growing=_set("append push_back emplace_back insert assign"),
    filling=_set(
        "strcpy strncpy strcat strncat strlcpy strlcat sprintf snprintf vsprintf memcpy memmove "
        "stpcpy asprintf"
    ),
    addresses=_set("pointer_expression"),
)
_GO = Flow(
    methods_stand_alone=True,
    checks_by_result=True,
    reading=_set(
        "Decode Unmarshal Scan Sscan Sscanf ReadFull Bind BindJSON BindQuery BindUri ShouldBind "
        "ShouldBindJSON ShouldBindQuery ShouldBindUri BodyParser QueryParser DecodeJSON"
    ),
    functions=_set("function_declaration method_declaration func_literal"),
    names=_set("identifier"),
    bindings={
        "short_var_declaration": ("left", "right"),
        "assignment_statement": ("left", "right"),
        "var_spec": ("name", "value"),
        "range_clause": ("left", "right"),
    },
    patterns=_set("expression_list"),
    members={"selector_expression": ("operand", "field")},
    items={"index_expression": "operand", "slice_expression": "operand"},
    calls={"call_expression": ("function", "arguments", "")},
    conditions={"if_statement": "condition"},
    blocks=_set("block source_file"),
    branches=_set("if_statement for_statement expression_case communication_case"),
    harmless=_set("int_literal float_literal func_literal"),
    passing=_set(
        "Sprintf Sprint Sprintln Join Clean Trim TrimSpace TrimPrefix TrimSuffix TrimLeft "
        "TrimRight Replace ReplaceAll ToLower ToUpper string NewReplacer QueryUnescape "
        "PathUnescape Parse Abs append Fprintf Fields Split NewRequest NewRequestWithContext "
        "HTML FromSlash Unquote Title Repeat Clone EvalSymlinks ReadAll DecodeString NewReader "
        "byte NewDecoder MaxBytesReader LimitReader NewScanner Cut SplitN"
    ),
    growing=_set("WriteString Write Add Set"),
    filling=_set("Fprintf Fprint Fprintln"),
    addresses=_set("unary_expression"),
)
_RUST = Flow(
    last_is_value=True,
    checks_by_result=True,
    macros=_set("macro_invocation"),
    functions=_set("function_item closure_expression"),
    names=_set("identifier"),
    bindings={
        "let_declaration": ("pattern", "value"),
        "assignment_expression": ("left", "right"),
        "compound_assignment_expr": ("left", "right"),
        "for_expression": ("pattern", "value"),
        "let_condition": ("pattern", "value"),
    },
    patterns=_set("tuple_pattern tuple_struct_pattern ref_pattern mut_pattern slice_pattern"),
    loops=_set("for_expression"),
    members={"field_expression": ("value", "field")},
    items={"index_expression": ""},
    calls={"call_expression": ("function", "arguments", "")},
    conditions={"if_expression": "condition", "while_expression": "condition"},
    blocks=_set("block source_file"),
    branches=_set("if_expression else_clause while_expression for_expression match_arm"),
    harmless=_set("integer_literal float_literal closure_expression"),
    operators=_set("== != < > <= >= ! && || - * / %"),
    passing=_set(
        "from new to_string to_owned into join push clone Some Ok String PathBuf Path decode "
        "Box unwrap sql_query query from_str from_utf8 from_utf8_lossy format parse"
    ),
    growing=_set("push push_str extend insert write_str append arg"),
)
_JAVA = Flow(
    functions=_set("method_declaration constructor_declaration lambda_expression"),
    names=_set("identifier"),
    bindings={
        "variable_declarator": ("name", "value"),
        "assignment_expression": ("left", "right"),
        "enhanced_for_statement": ("name", "value"),
        "resource": ("name", "value"),
    },
    loops=_set("enhanced_for_statement"),
    members={"field_access": ("object", "field")},
    items={"array_access": "array"},
    calls={
        "method_invocation": ("name", "arguments", "object"),
        "object_creation_expression": ("type", "arguments", ""),
    },
    conditions={"if_statement": "condition", "while_statement": "condition"},
    choices=_set("ternary_expression"),
    blocks=_set("block program constructor_body"),
    branches=_set(
        "if_statement while_statement for_statement enhanced_for_statement try_statement "
        "catch_clause switch_block_statement_group switch_rule"
    ),
    harmless=_set("decimal_integer_literal instanceof_expression lambda_expression class_literal"),
    operators=_set("== != < > <= >= ! && || - * / %"),
    passing=_set(
        "String valueOf format formatted concat join get of File Path resolve toString URL URI "
        "create StringBuilder StringBuffer decode getBytes replace trim append FileInputStream "
        "ByteArrayInputStream InputSource StringReader ObjectInputStream requireNonNull "
        "requireNonNullElse strip toLowerCase toUpperCase asList List copyOf"
    ),
    growing=_set("append add put insert addAll"),
)

FLOWS: Mapping[str, Flow] = MappingProxyType(
    {
        "python": _PYTHON,
        "javascript": _SCRIPT,
        "typescript": _SCRIPT,
        "tsx": _SCRIPT,
        "c": _C,
        "cpp": _C,
        "go": _GO,
        "rust": _RUST,
        "java": _JAVA,
    }
)
