"""All findings in a text.

The tree is taken apart into pieces: what is large into its children, down to pieces of some lines.
What the rules find in a piece follows from its text, so that when a key is typed only the pieces
around it are looked at again; see ``changed``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from tree_sitter import Node, Tree

from vivace.findings.helpers import FileHelpers
from vivace.findings.pattern import Bindings, OutOfSteps, Steps
from vivace.findings.places import Places
from vivace.findings.plan import Active, Plan, Planned
from vivace.findings.remembered import STEPS, Look, Match, Memory, Piece, Run
from vivace.findings.rewrite import breaks_string, placed, rewritten, spelled
from vivace.findings.rule import Rule
from vivace.findings.rule_set import RuleSet
from vivace.findings.suppressions import Suppressions
from vivace.findings.taint import Taint
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, replacing
from vivace.syntax.languages import Language
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

__all__ = ["Memory", "Pieces", "findings_of", "scan", "try_out"]

_LARGE = 1_500
"""Bytes; what is larger is taken apart."""
_DEEPEST = 60
"""Pieces within pieces."""
_LOWEST = 300
"""Nodes within nodes; what is further down was made by a machine, and is not looked at. To ask each
node about those around it takes a time that is quadratic in the depth."""
_LONGEST = 2_000
"""Characters of lines that a fix is written for; what is longer was made by a machine."""
_FEW = 1_000
"""For all rules in one piece: not worth counting, since it grows with the text and no faster."""
_STEPS_IN_ALL = 1_000_000
"""For one rule in one text."""
_STEPS_TOGETHER = 2_000_000
"""For all rules in one text; if that is not enough, those that took a good part of it give up."""
_GOOD_PART = 50_000


def scan(source: Source, rules: RuleSet) -> list[Finding]:
    """In the order of the text; without those that a comment suppresses."""
    if source.language is None:
        return []
    plan = rules.plan(source.language)
    memory = Memory()
    piece = Pieces(plan, memory, is_only_scan=True).of(source.tree)
    return findings_of(source, plan, piece, memory, is_only_scan=True)


class Pieces:
    """The pieces of trees, and what is in them."""

    def __init__(self, plan: Plan, memory: Memory, *, is_only_scan: bool = False) -> None:
        """``is_only_scan``: ``memory`` serves one tree only. What cannot match because of the rest
        of the file is then not tried at all."""
        self._plan = plan
        self._memory = memory
        self._is_only_scan = is_only_scan
        self._possible = -1
        """The rules that can match in this file, a bit for each."""
        self._places: Places | None = None
        self._spent: dict[int, int] = {}
        self._together = 0
        self._given_up: set[int] = set()
        """Rules that took too long for this text already: they are not tried any further."""

    def of(self, tree: Tree) -> Piece:
        root = tree.root_node
        if not self._memory:
            self._places = self._plan.places_in(root.text or b"", root.start_byte)
            if self._is_only_scan:
                self._possible = self._plan.possible(self._places.words)
        return self._piece(root, root, 0)

    def _piece(self, node: Node, root: Node, depth: int) -> Piece:
        text = node.text or b""
        if node.has_error:  # how it was mended depends on what is around it
            return self._read(node, text, root, depth)
        key = node.kind_id, text
        piece = self._memory.get(key)
        if not isinstance(piece, Piece) or depth + piece.height > _LOWEST:
            piece = self._read(node, text, root, depth)
            # Else not all rules were tried, or not on all nodes.
            if not self._given_up and depth + piece.height <= _LOWEST:
                self._memory.keep(key, piece)
        return piece

    def _read(self, node: Node, text: bytes, root: Node, depth: int) -> Piece:
        trying = _Trying(self._plan, root, node.start_byte, self._given_up, self._possible)
        trying.is_only_scan = self._is_only_scan
        if len(text) <= _LARGE or depth == _DEEPEST or not node.child_count:
            places = self._places or self._plan.places_in(text, node.start_byte)
            trying.words = places.words_between(node.start_byte, node.end_byte)
            if trying.words and node.kind_id not in self._plan.functions:
                trying.outside = self._outside(node, places)
            trying.all_in(node, _LOWEST - depth, places)
        else:
            for child in node.children:
                below = self._piece(child, root, depth + 1)
                trying.add(below, child.start_byte - node.start_byte)
            trying.one(node)
        self._count(trying.own_steps)
        if node.kind_id in self._plan.functions:
            trying.outside = 0  # whatever is in its parts
        return trying.piece()

    def _count(self, steps: Mapping[int, int]) -> None:
        for rule, took in steps.items():
            self._spent[rule] = self._spent.get(rule, 0) + took
            self._together += took
            if self._spent[rule] > _most(self._together):
                self._given_up.add(rule)

    def _outside(self, node: Node, places: Places) -> int:
        """Return the words of a piece that stand outside of its functions."""
        words, at = 0, node.start_byte
        waiting = [node]
        while waiting:
            each = waiting.pop()
            start, end = each.start_byte, each.end_byte
            if each.kind_id in self._plan.functions:
                words |= places.words_between(at, start)
                at = end
            elif places.has_any(start, end):
                waiting.extend(reversed(each.children))
        return words | places.words_between(at, node.end_byte)


class _Trying:
    """Rules tried on the nodes of one piece."""

    def __init__(
        self, plan: Plan, root: Node, start: int, given_up: Collection[int], possible: int
    ) -> None:
        self._plan = plan
        self._possible = possible
        self._given_up = given_up
        self._root = root
        self._start = start
        self.words = self.outside = 0
        self.is_only_scan = False
        self._matches: list[Match] = []
        self._looks: list[Look] = []
        self._parts: list[tuple[int, Piece]] = []
        self._asking = 0
        self._height = 0
        self._steps: dict[int, int] = {}
        self._own_steps: dict[int, int] = {}

    @property
    def own_steps(self) -> Mapping[int, int]:
        """Without what its parts took, and without a few."""
        return self._own_steps if sum(self._own_steps.values()) > _FEW else {}

    def piece(self) -> Piece:
        for rule, steps in self.own_steps.items():
            self._steps[rule] = self._steps.get(rule, 0) + steps
        for look in self._looks:
            self._asking |= 1 << look.rule
        return Piece(
            self.words,
            self.outside,
            tuple(self._matches),
            tuple(self._looks),
            self._steps,
            self._height,
            tuple(self._parts),
            self._asking,
        )

    def add(self, below: Piece, by: int) -> None:
        self.words |= below.words
        self.outside |= below.outside
        self._asking |= below.asking
        if below.matches or below.looks or below.parts:
            self._parts.append((by, below))
        if below.height >= self._height:
            self._height = below.height + 1
        for rule, steps in below.steps.items():
            self._steps[rule] = self._steps.get(rule, 0) + steps

    def all_in(self, node: Node, lowest: int, places: Places) -> None:
        active = self._plan.active(self.words)
        if not active.is_any:
            return
        quiet = active.quiet
        level: list[tuple[int | None, list[Node]]] = [(None, [node])]
        while level and self._height <= lowest:
            below: list[tuple[int | None, list[Node]]] = []
            for parent, nodes in level:
                below += [
                    (node.kind_id, children)
                    for node in nodes
                    if (node.kind_id in quiet or self._try_all(active, node, parent, places))
                    and (children := node.children)
                ]
            level = below
            self._height += 1

    def _try_all(self, active: Active, node: Node, parent: int | None, places: Places) -> bool:
        """Try the rules on a node below one of the kind ``parent``. Return whether a rule can match
        below it."""
        words = -1
        if active.needs_words(node.kind_id):
            words = places.words_in_node(node.start_byte, node.end_byte)
        for planned in active.at(node.kind_id):
            if (
                planned.bit & self._possible
                and planned.can_be_below(parent)
                and (not planned.needs or planned.can_be_in(words))
            ):
                self._try(planned, node)
        return words != 0 or active.is_any_without_words

    def one(self, node: Node) -> None:
        """A node that was taken apart. In a whole file only what is outside of functions is new to
        a rule that reads functions."""
        is_file = node.kind_id in self._plan.files
        active = self._plan.active(self.words)
        for planned in active.at(node.kind_id):
            is_new = not is_file or not planned.reads_functions or planned.can_be_in(self.outside)
            if is_new and planned.bit & self._possible:
                self._try(planned, node)

    def _try(self, planned: Planned, node: Node) -> None:
        number = planned.number
        used = self._own_steps.get(number, 0)
        if used > STEPS or number in self._given_up:
            return
        steps = Steps(STEPS, self._root)
        with suppress(OutOfSteps):
            self._match(planned, node, steps)
        self._own_steps[number] = used + STEPS - steps.left

    def _match(self, planned: Planned, node: Node, steps: Steps) -> None:
        matcher = planned.matcher
        if not matcher.looks_out:
            self._matches += matches_at(planned, node, steps, self._start)
        elif (self.is_only_scan and planned.reads_functions) or matcher.may_match(node, steps):
            start, end = node.start_byte - self._start, node.end_byte - self._start
            self._looks.append(Look(planned.number, start, end, node.kind_id))


def try_out(rules: RuleSet, language: Language) -> None:
    """Each rule on an example of its own. Its expressions are made ready as they are needed, which
    takes a tenth of a second: whoever types the first match does not wait for that."""
    for rule in rules.for_language(language.name):
        for text in rule.invalid[:1]:
            scan(Source(text, language), rules)


def matches_at(planned: Planned, node: Node, steps: Steps, start: int) -> list[Match]:
    if isinstance(planned.matcher, Taint):
        return [match_of(planned, sink, {}, start) for sink in planned.matcher.reached(node, steps)]
    bound = planned.matcher.match(node, {}, steps)
    return [] if bound is None else [match_of(planned, node, bound, start)]


def match_of(planned: Planned, node: Node, bound: Bindings, start: int) -> Match:
    rule = planned.rule
    instead = None if rule.fix is None else rewritten(rule.fix, node, bound)
    return Match(
        planned.number,
        node.start_byte - start,
        node.end_byte - start,
        spelled(rule.message, bound),
        instead,
    )


def findings_of(
    source: Source, plan: Plan, piece: Piece, memory: Memory, *, is_only_scan: bool = False
) -> list[Finding]:
    """Return the findings of the whole text; ``is_only_scan`` as in ``Pieces``."""
    root = source.tree.root_node
    offset = root.start_byte
    matches = set(piece.each_match(offset))
    steps = dict(piece.steps)
    shared: dict[object, bool] = {}
    around = plan.around_sources if is_only_scan else None
    helpers = FileHelpers(source, memory, shared, around_sources=around)
    possible = plan.possible(piece.words)
    together = sum(steps.values())
    way: list[Node] = []
    for look in piece.each_look(offset, possible):
        took = steps.get(look.rule, 0)
        if took > _most(together):
            continue
        run = _run(plan.rules[look.rule], look, root, memory, shared, way, helpers)
        matches |= {each.moved(look.start) for each in run.matches}
        steps[look.rule] = took + run.steps
        together += run.steps
    too_long = _too_long(steps)
    kept = [each for each in matches if each.rule not in too_long]
    kept.sort(key=lambda each: (each.start, each.end, plan.rules[each.rule].rule.id))
    findings = [
        _finding(source, plan.rules[each.rule].rule, each) for each in _told_once(kept, plan)
    ]
    gave_up = [_gave_up(plan.rules[rule].rule) for rule in sorted(too_long)]
    return gave_up + Suppressions.of(source).applied(findings)


def _told_once(kept: Sequence[Match], plan: Plan) -> Iterator[Match]:
    """A fault that several rules find in one place is one."""
    told: set[tuple[int, int, int]] = set()
    for each in kept:
        cwe = plan.rules[each.rule].rule.cwe
        if cwe is None or (each.start, each.end, cwe) not in told:
            yield each
        if cwe is not None:
            told.add((each.start, each.end, cwe))


def _too_long(steps: Mapping[int, int]) -> set[int]:
    """The rules that took too many."""
    most = _most(sum(steps.values()))
    return {rule for rule, took in steps.items() if took > most}


def _most(together: int) -> int:
    """How many a rule may take, given what all rules took."""
    return _STEPS_IN_ALL if together <= _STEPS_TOGETHER else _GOOD_PART


def _run(
    planned: Planned,
    look: Look,
    root: Node,
    memory: Memory,
    shared: dict[object, bool],
    way: list[Node],
    helpers: FileHelpers,
) -> Run:
    node = _node_at(root, look.start, look.end, look.kind)
    key = planned.number, look.kind, node.text
    remembers = planned.reads_functions and not node.has_error
    known = memory.get(key) if remembers else None
    if isinstance(known, Run) and known.holds_at(node, root, shared, helpers):
        return known
    steps = Steps(STEPS, root, node if remembers else None, shared, way, helpers)
    matches: list[Match] = []
    with suppress(OutOfSteps):
        matches = matches_at(planned, node, steps, node.start_byte)
    run = Run(tuple(matches), steps.beyond, STEPS - steps.left)
    if remembers and steps.is_closed:
        memory.keep(key, run)
    return run


def _node_at(root: Node, start: int, end: int, kind: int | None = None) -> Node:
    """The innermost with this place; of what is only in the tree because it is missing in the text,
    and has no length, there may be several at one."""
    waiting = [root]
    if start < end and (near := root.descendant_for_byte_range(start, end)) is not None:
        while near is not None and kind not in (None, near.kind_id):
            near = near.parent
        if near is not None and (near.start_byte, near.end_byte) == (start, end):
            return near
    while waiting:
        node = waiting.pop()
        if (node.start_byte, node.end_byte) == (start, end) and kind in (None, node.kind_id):
            return node
        around = (each for each in node.children if each.start_byte <= start)
        waiting += [each for each in around if end <= each.end_byte]
    raise AssertionError("what was found is in this tree")


def _finding(source: Source, rule: Rule, match: Match) -> Finding:
    node = _node_at(source.tree.root_node, match.start, match.end)
    first, last = node.start_point, node.end_point
    lines = source.lines
    columns = _characters(lines, first.row, first.column), _characters(lines, last.row, last.column)
    fix = (
        ()
        if match.instead is None
        or sum(map(len, lines[first.row : last.row + 1])) > _LONGEST
        or breaks_string(node, match.instead)
        else (_hunk(lines, first.row, last.row, columns, match.instead),)
    )
    person = f"{match.what} {rule.note}".strip()
    return Finding(
        rule.id,
        person,
        f"Change line {first.row + 1} so that this is no longer true: {person}",
        severity=rule.severity,
        lines=(first.row, last.row + 1),
        columns=columns,
        fix=fix,
        evidence=() if rule.cwe is None else (f"CWE-{rule.cwe}",),
    )


def _characters(lines: list[str], row: int, column: int) -> int:
    """A column in bytes, in characters."""
    line = lines[row] if row < len(lines) else ""
    if line.isascii():
        return column
    return len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "surrogatepass"))


def _hunk(lines: list[str], first: int, last: int, columns: tuple[int, int], instead: str) -> Hunk:
    before = lines[first][: columns[0]] if first < len(lines) else ""
    after = lines[last][columns[1] :] if last < len(lines) else ""
    end = min(last + 1, len(lines))
    instead = placed(instead, before)
    return replacing(lines, first, end, lines_of(before + instead + after))


def _gave_up(rule: Rule) -> Finding:
    return Finding(
        "rule-gave-up",
        f"The rule '{rule.id}' was tried for too long on this file, so what it finds is not shown. "
        "Make its patterns more specific, or leave the rule out.",
        f"Make the patterns of the rule '{rule.id}' more specific.",
        severity="note",
    )
