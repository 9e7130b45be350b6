"""All findings in a text.

The tree is taken apart into pieces: what is large into its children, down to pieces of some lines.
What the rules find in a piece follows from its text, so that when a key is typed only the pieces
around it are looked at again; see ``changed``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from contextlib import suppress

from msgspec import Struct
from tree_sitter import Node, Tree

from vivace.findings.matching import Outward
from vivace.findings.pattern import Bindings, OutOfSteps, Steps
from vivace.findings.plan import Places, Plan, Planned
from vivace.findings.rewrite import rewritten, spelled
from vivace.findings.rule import Rule
from vivace.findings.rule_set import RuleSet
from vivace.findings.suppressions import Suppressions
from vivace.findings.taint import Taint
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, replacing
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

__all__ = ["Memory", "Pieces", "findings_of", "scan"]

_LARGE = 1_500
"""Bytes; what is larger is taken apart."""
_DEEPEST = 60
_STEPS = 100_000
"""For one rule in one piece. Ordinary rules take some dozens for each node they are tried on."""
_LONGEST = 2_000
"""Characters of lines that a fix is written for; what is longer was made by a machine."""
_STEPS_IN_ALL = 1_000_000
"""For one rule in one text."""


def scan(source: Source, rules: RuleSet) -> list[Finding]:
    """In the order of the text; without those that a comment suppresses."""
    if source.language is None:
        return []
    plan = rules.plan(source.language)
    memory = Memory()
    return findings_of(source, plan, Pieces(plan, memory).of(source.tree), memory)


class Match(Struct, frozen=True):
    rule: int
    start: int
    """In bytes, from where the piece begins."""
    end: int
    what: str
    """The rule's message, with what its names stand for."""
    instead: str | None = None
    """What is to stand there."""

    def moved(self, by: int) -> Match:
        return Match(self.rule, self.start + by, self.end + by, self.what, self.instead)


class Look(Struct, frozen=True):
    """A node that a rule may match, which depends on what is around it."""

    rule: int
    start: int
    end: int
    kind: int

    def moved(self, by: int) -> Look:
        return Look(self.rule, self.start + by, self.end + by, self.kind)


class Piece(Struct, frozen=True):
    """What a piece of code has in it, whatever is around it."""

    words: int = 0
    outside: int = 0
    """The words that stand outside of functions."""
    matches: tuple[Match, ...] = ()
    looks: tuple[Look, ...] = ()
    steps: Mapping[int, int] = {}
    """What each rule took, if it took any."""


class Memory:
    """What was found in code before, by its text. What is not met again is forgotten."""

    def __init__(self, before: Memory | None = None) -> None:
        self._known: dict[Hashable, Piece | Run] = {} if before is None else before.met
        self.met: dict[Hashable, Piece | Run] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def get(self, key: Hashable) -> Piece | Run | None:
        known = self.met.get(key) or self._known.get(key)
        if known is not None:
            self.met[key] = known
        return known

    def keep(self, key: Hashable, value: Piece | Run) -> None:
        self.met[key] = value


class Run(Struct, frozen=True):
    """What a rule found in a function, and what it asked about what is around it."""

    matches: tuple[Match, ...]
    asked: Mapping[Outward, bool]
    steps: int

    def holds_at(self, node: Node, root: Node, shared: dict[object, bool]) -> bool:
        steps = Steps(_STEPS, root, node, shared)
        try:
            return all(each.holds_beyond(steps) == answer for each, answer in self.asked.items())
        except OutOfSteps:
            return False


class Pieces:
    """The pieces of trees, and what is in them."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self._plan = plan
        self._memory = memory
        self._places: Places | None = None
        self._spent: dict[int, int] = {}
        self._given_up: set[int] = set()
        """Rules that took too long for this text already: they are not tried any further."""

    def of(self, tree: Tree) -> Piece:
        root = tree.root_node
        if not self._memory:
            self._places = self._plan.places_in(root.text or b"")
        return self._piece(root, root, 0)

    def _piece(self, node: Node, root: Node, depth: int) -> Piece:
        text = node.text or b""
        if node.has_error:  # how it was mended depends on what is around it
            return self._read(node, text, root, depth)
        key = node.kind_id, text
        piece = self._memory.get(key)
        if not isinstance(piece, Piece):
            piece = self._read(node, text, root, depth)
            if not self._given_up:  # else not all rules were tried
                self._memory.keep(key, piece)
        return piece

    def _read(self, node: Node, text: bytes, root: Node, depth: int) -> Piece:
        trying = _Trying(self._plan, root, node.start_byte, self._given_up)
        if len(text) <= _LARGE or depth == _DEEPEST or not node.child_count:
            trying.words = self._words(node, text, root)
            trying.outside = trying.words and self._outside(node, text)
            trying.all_in(node)
            self._count(trying.steps)
        else:
            for child in node.children:
                below = self._piece(child, root, depth + 1)
                trying.add(below, child.start_byte - node.start_byte)
            trying.one(node)
        if node.kind_id in self._plan.functions:
            trying.outside = 0  # whatever is in its parts
        return trying.piece()

    def _count(self, steps: Mapping[int, int]) -> None:
        for rule, took in steps.items():
            self._spent[rule] = self._spent.get(rule, 0) + took
            if self._spent[rule] > _STEPS_IN_ALL:
                self._given_up.add(rule)

    def _outside(self, node: Node, text: bytes) -> int:
        """The words of a piece that stand outside of its functions."""
        kept, at = b"", node.start_byte
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each.kind_id in self._plan.functions:
                kept += text[at - node.start_byte : each.start_byte - node.start_byte] + b"\n"
                at = each.end_byte
            else:
                waiting.extend(reversed(each.children))
        return self._plan.words_in(kept + text[at - node.start_byte :])

    def _words(self, node: Node, text: bytes, root: Node) -> int:
        if self._places is None:
            return self._plan.words_in(text)
        by = root.start_byte
        return self._places.words_between(node.start_byte - by, node.end_byte - by)


class _Trying:
    """Rules tried on the nodes of one piece."""

    def __init__(self, plan: Plan, root: Node, start: int, given_up: Collection[int]) -> None:
        self._plan = plan
        self._given_up = given_up
        self._root = root
        self._start = start
        self.words = self.outside = 0
        self._matches: list[Match] = []
        self._looks: list[Look] = []
        self.steps: dict[int, int] = {}

    def piece(self) -> Piece:
        return Piece(self.words, self.outside, tuple(self._matches), tuple(self._looks), self.steps)

    def add(self, below: Piece, by: int) -> None:
        self.words |= below.words
        self.outside |= below.outside
        self._matches += [each.moved(by) for each in below.matches]
        self._looks += [each.moved(by) for each in below.looks]
        for rule, steps in below.steps.items():
            self.steps[rule] = self.steps.get(rule, 0) + steps

    def all_in(self, node: Node) -> None:
        active = self._plan.active(self.words)
        if not active.is_any:
            return
        by_kind, anywhere = active.by_kind, active.anywhere
        waiting = [node]
        while waiting:
            node = waiting.pop()
            for planned in by_kind.get(node.kind_id, anywhere):
                self._try(planned, node)
            waiting.extend(node.children)

    def one(self, node: Node) -> None:
        """A node that was taken apart. In a whole file only what is outside of functions is new to
        a rule that reads functions."""
        is_file = node.kind_id in self._plan.files
        active = self._plan.active(self.words)
        for planned in active.by_kind.get(node.kind_id, active.anywhere):
            if not is_file or not planned.reads_functions or planned.can_be_in(self.outside):
                self._try(planned, node)

    def _try(self, planned: Planned, node: Node) -> None:
        number = planned.number
        used = self.steps.get(number, 0)
        if used > _STEPS or number in self._given_up:
            return
        steps = Steps(_STEPS, self._root)
        with suppress(OutOfSteps):
            self._match(planned, node, steps)
        self.steps[number] = used + _STEPS - steps.left

    def _match(self, planned: Planned, node: Node, steps: Steps) -> None:
        matcher = planned.matcher
        if not matcher.looks_out:
            self._matches += matches_at(planned, node, steps, self._start)
        elif matcher.may_match(node, steps):
            start, end = node.start_byte - self._start, node.end_byte - self._start
            self._looks.append(Look(planned.number, start, end, node.kind_id))


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


def findings_of(source: Source, plan: Plan, piece: Piece, memory: Memory) -> list[Finding]:
    """What was found in the whole text, as it is said."""
    root = source.tree.root_node
    offset = root.start_byte
    matches = {each.moved(offset) for each in piece.matches}
    steps = dict(piece.steps)
    shared: dict[object, bool] = {}
    possible = {each.number for each in plan.rules if each.can_be_in_file(piece.words)}
    for look in piece.looks:
        if look.rule not in possible or steps.get(look.rule, 0) > _STEPS_IN_ALL:
            continue
        run = _run(plan.rules[look.rule], look.moved(offset), root, memory, shared)
        matches |= {each.moved(look.start + offset) for each in run.matches}
        steps[look.rule] = steps.get(look.rule, 0) + run.steps
    too_long = {rule for rule, took in steps.items() if took > _STEPS_IN_ALL}
    kept = [each for each in matches if each.rule not in too_long]
    kept.sort(key=lambda each: (each.start, each.end, plan.rules[each.rule].rule.id))
    findings = [_finding(source, plan.rules[each.rule].rule, each) for each in kept]
    gave_up = [_gave_up(plan.rules[rule].rule) for rule in sorted(too_long)]
    return gave_up + Suppressions.of(source).applied(findings)


def _run(
    planned: Planned, look: Look, root: Node, memory: Memory, shared: dict[object, bool]
) -> Run:
    node: Node | None = root.descendant_for_byte_range(look.start, look.end)
    while node is not None and node.kind_id != look.kind:
        node = node.parent
    assert node is not None, "a look is at a node of this tree"
    key = planned.number, look.kind, node.text
    remembers = planned.reads_functions and not node.has_error
    known = memory.get(key) if remembers else None
    if isinstance(known, Run) and known.holds_at(node, root, shared):
        return known
    steps = Steps(_STEPS, root, node if remembers else None, shared)
    matches: list[Match] = []
    with suppress(OutOfSteps):
        matches = matches_at(planned, node, steps, node.start_byte)
    asked = {each: answer for each, answer in steps.beyond.items() if isinstance(each, Outward)}
    run = Run(tuple(matches), asked, _STEPS - steps.left)
    if remembers and steps.is_closed:
        memory.keep(key, run)
    return run


def _finding(source: Source, rule: Rule, match: Match) -> Finding:
    node = source.tree.root_node.descendant_for_byte_range(match.start, match.end)
    assert node is not None
    first, last = node.start_point, node.end_point
    lines = source.lines
    columns = _characters(lines, first.row, first.column), _characters(lines, last.row, last.column)
    fix = (
        ()
        if match.instead is None or sum(map(len, lines[first.row : last.row + 1])) > _LONGEST
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
    return replacing(lines, first, end, lines_of(before + instead + after))


def _gave_up(rule: Rule) -> Finding:
    return Finding(
        "rule-gave-up",
        f"The rule '{rule.id}' was tried for too long on this file, so what it finds is not shown. "
        "Make its patterns more specific, or leave the rule out.",
        f"Make the patterns of the rule '{rule.id}' more specific.",
        severity="note",
    )
