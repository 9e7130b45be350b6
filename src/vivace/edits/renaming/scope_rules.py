"""Where each language declares names, and as far as a declaration reaches: one table for each.

A row is ``node.field``: a name in that field of that node is declared there. Behind it stand how
far it reaches and what it is. Names are the grammars'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

__all__ = ["RULES", "Kind", "Reach", "Rules"]

Kind = Literal["variable", "parameter", "function", "type", "import", "field", "method"]
Reach = Literal["around", "after", "next", "within", "function", "arm", "then", "prototype", "flow"]
"""``around``: all over the scope around the declaring node; ``after``: there, from its end on;
``next``: there, from the name on;
``within``: the scope that the declaring node stands in or is; ``function``: the function around it;
``arm``: from the pattern to the end of its branch; ``then``: the branch behind a condition;
``prototype``: as C's parameters; ``flow``: as far as Java's patterns may hold."""

Row = tuple[Reach, Kind]


class Rules(Struct, frozen=True, kw_only=True):
    scopes: frozenset[str]
    functions: frozenset[str]
    """Scopes that hold what is declared anywhere in their blocks."""
    declares: Mapping[str, Row]
    patterns: frozenset[str]
    """``node.field`` through which a declaration is looked for further out."""
    members: frozenset[str]
    """``node.field``, or the type of a leaf: names of something of an object."""
    labels: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    """Names behind ``::`` and the like."""
    short: frozenset[str] = frozenset()
    """Leaves, or ``node.``, that name a variable and a field at once."""
    own_let: bool = False
    """Whether each ``let`` in a block is another variable."""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(text: str) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line in text.strip().splitlines():
        *names, reach, kind = line.split()
        rows |= dict.fromkeys(names, (reach, kind))  # type: ignore[arg-type]
    return rows


_PYTHON = Rules(
    scopes=_set(
        "module function_definition lambda class_definition list_comprehension "
        "set_comprehension dictionary_comprehension generator_expression"
    ),
    functions=_set("module function_definition lambda class_definition"),
    declares=_rows("""
        function_definition.name                                        around function
        class_definition.name                                           around type
        parameters. lambda_parameters. default_parameter.name           within parameter
        typed_default_parameter.name typed_parameter.                   within parameter
        assignment.left augmented_assignment.left for_statement.left    function variable
        named_expression.name as_pattern.alias                          function variable
        case_pattern. splat_pattern. delete_statement.                  function variable
        type_alias_statement.left                                       function type
        for_in_clause.left                                              within variable
        import_statement.name import_from_statement.name                function import
        aliased_import.alias                                            function import
    """),
    patterns=_set(
        "pattern_list. tuple_pattern. list_pattern. list_splat_pattern. dictionary_splat_pattern. "
        "as_pattern_target. tuple. list. parenthesized_expression. dotted_name. expression_list."
    ),
    members=_set("attribute.attribute keyword_pattern."),
    paths=_set("aliased_import.name import_from_statement.module_name"),
)

_SCRIPT = Rules(
    scopes=_set(
        "program function_declaration generator_function_declaration function_expression "
        "generator_function arrow_function method_definition statement_block for_statement "
        "for_in_statement catch_clause switch_body class_declaration abstract_class_declaration "
        "class class_static_block type_alias_declaration interface_declaration function_type "
        "function_signature method_signature call_signature construct_signature constructor_type "
        "abstract_method_signature index_signature"
    ),
    functions=_set(
        "program function_declaration generator_function_declaration function_expression "
        "generator_function arrow_function method_definition class_static_block"
    ),
    declares=_rows("""
        function_declaration.name generator_function_declaration.name   around function
        function_signature.name                                         around function
        function_expression.name generator_function.name                within function
        class_declaration.name abstract_class_declaration.name          around type
        enum_declaration.name internal_module.name module.name          around type
        interface_declaration.name type_alias_declaration.name          around type
        class.name type_parameter.name mapped_type_clause.name          within type
        variable_declarator.name                                        around variable
        formal_parameters. required_parameter.pattern                   within parameter
        optional_parameter.pattern arrow_function.parameter             within parameter
        catch_clause.parameter for_in_statement.left                    within variable
        index_signature.name                                            within variable
        import_specifier.alias import_specifier.name import_clause.     around import
        namespace_import.                                               around import
    """),
    patterns=_set(
        "object_pattern. array_pattern. rest_pattern. pair_pattern.value assignment_pattern.left "
        "object_assignment_pattern.left"
    ),
    members=_set(
        "property_identifier private_property_identifier nested_type_identifier.name "
        "nested_identifier.property export_specifier.alias"
    ),
    labels=_set("statement_identifier"),
    short=_set("shorthand_property_identifier shorthand_property_identifier_pattern"),
)

_C_NAMES = (
    "pointer_declarator.declarator array_declarator.declarator init_declarator.declarator "
    "parenthesized_declarator. function_declarator.declarator reference_declarator. "
    "attributed_declarator."
)
_C = Rules(
    scopes=_set("translation_unit function_definition compound_statement for_statement"),
    functions=_set("translation_unit function_definition"),
    declares=_rows("""
        function_definition.declarator                                  around function
        declaration.declarator                                          next variable
        parameter_declaration.declarator                                prototype parameter
        type_definition.declarator                                      next type
        enumerator.name                                                 next variable
    """),
    patterns=_set(_C_NAMES),
    members=_set("field_identifier"),
    labels=_set("statement_identifier"),
)
_CPP = Rules(
    scopes=_C.scopes
    | _set(
        "for_range_loop if_statement while_statement switch_statement lambda_expression "
        "catch_clause template_declaration namespace_definition field_declaration_list "
        "class_specifier struct_specifier union_specifier"
    ),
    functions=_C.functions | {"lambda_expression"},
    declares={
        **_C.declares,
        **_rows("""
            optional_parameter_declaration.declarator                   prototype parameter
            type_parameter_declaration. optional_type_parameter_declaration.name    within type
            variadic_type_parameter_declaration.                        within type
            class_specifier.name struct_specifier.name                  around type
            union_specifier.name enum_specifier.name alias_declaration.name     around type
            for_range_loop.declarator lambda_capture_initializer.left   arm variable
        """),
    },
    patterns=_set(_C_NAMES + " structured_binding_declarator."),
    members=_set("field_identifier"),
    labels=_set("statement_identifier"),
    paths=_set("qualified_identifier.name"),
)

_GO = Rules(
    scopes=_set(
        "source_file function_declaration method_declaration func_literal block if_statement "
        "for_statement expression_switch_statement type_switch_statement expression_case "
        "default_case type_case communication_case type_spec function_type method_elem"
    ),
    functions=_set("source_file function_declaration method_declaration func_literal"),
    declares=_rows("""
        function_declaration.name                                       around function
        type_spec.name type_alias.name                                  around type
        type_parameter_declaration.name                                 within type
        parameter_declaration.name variadic_parameter_declaration.name  within parameter
        short_var_declaration.left var_spec.name const_spec.name        after variable
        receive_statement.left                                          after variable
        range_clause.left type_switch_statement.alias                   arm variable
        import_spec.name                                                around import
    """),
    patterns=_set("expression_list."),
    members=_set("field_identifier qualified_type.name"),
    labels=_set("label_name"),
)

_RUST = Rules(
    scopes=_set(
        "source_file mod_item function_item closure_expression block match_arm if_expression "
        "while_expression for_expression impl_item trait_item struct_item enum_item union_item "
        "function_signature_item type_item declaration_list"
    ),
    functions=_set("source_file mod_item function_item closure_expression"),
    declares=_rows("""
        function_item.name function_signature_item.name                 around function
        const_item.name static_item.name                                around variable
        struct_item.name enum_item.name union_item.name                 around type
        trait_item.name type_item.name                                  around type
        type_parameter.name const_parameter.name                        within type
        parameter.pattern closure_parameters.                           within parameter
        let_declaration.pattern                                         after variable
        for_expression.pattern                                          arm variable
        match_pattern.                                                  arm variable
        let_condition.pattern                                           then variable
        use_as_clause.alias use_declaration.argument use_list.          around import
    """),
    patterns=_set(
        "tuple_pattern. reference_pattern. mut_pattern. ref_pattern. struct_pattern. "
        "slice_pattern. field_pattern.name field_pattern.pattern tuple_struct_pattern. or_pattern. "
        "captured_pattern."
    ),
    members=_set("field_identifier"),
    paths=_set("scoped_identifier.name scoped_type_identifier.name"),
    short=_set("shorthand_field_identifier shorthand_field_initializer."),
    own_let=True,
)

_JAVA = Rules(
    scopes=_set(
        "program class_body interface_body enum_body enum_body_declarations annotation_type_body "
        "method_declaration constructor_declaration compact_constructor_declaration "
        "lambda_expression block constructor_body for_statement enhanced_for_statement "
        "try_with_resources_statement catch_clause switch_block_statement_group switch_rule "
        "class_declaration interface_declaration record_declaration"
    ),
    functions=_set("program class_body method_declaration constructor_declaration"),
    declares=_rows("""
        class_declaration.name interface_declaration.name               around type
        enum_declaration.name record_declaration.name                   around type
        annotation_type_declaration.name                                around type
        type_parameter.                                                 within type
        method_declaration.name                                         around method
        field_declaration.declarator                                    around field
        local_variable_declaration.declarator                           next variable
        formal_parameter.name spread_parameter. catch_formal_parameter.name     within parameter
        inferred_parameters. lambda_expression.parameters               within parameter
        enhanced_for_statement.name                                     arm variable
        resource.name                                                   then variable
        instanceof_expression.name type_pattern. record_pattern_component.      flow variable
    """),
    patterns=_set("variable_declarator.name"),
    members=_set(
        "field_access.field method_reference. element_value_pair.key enum_constant.name "
        "constructor_declaration.name"
    ),
    labels=_set("labeled_statement. break_statement. continue_statement."),
    paths=_set("scoped_identifier.name scoped_type_identifier."),
)

RULES: Mapping[str, Rules] = {
    "python": _PYTHON,
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "c": _C,
    "cpp": _CPP,
    "go": _GO,
    "rust": _RUST,
    "java": _JAVA,
}
