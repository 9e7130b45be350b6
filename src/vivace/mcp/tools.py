"""The tools that an agent is offered: their arguments, and the words by which it knows them.

A model reads these words to decide which tool to use and how, so they say when to use it, what to
give, and what becomes of the file. tests/mcp/schemas has them as they go over the wire.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

__all__ = ["INSTRUCTIONS", "TOOLS", "ApplySketch", "EditFile", "Tool"]

LONGEST_INSTRUCTION = 10_000
"""Characters; to look for places that are meant takes long in more, and no change needs so many."""
LONGEST_SKETCH = 100_000
"""Characters; a model reads no more at once."""

INSTRUCTIONS = (
    "Edits files in the user's project with a fast local coding model: quicker than rewriting a "
    "file yourself, and checked. Use edit_file for a small change that you can say in a sentence, "
    "apply_sketch for code that you have in mind. Each call changes one file and returns the diff. "
    "What looks wrong is not written: you get the reason and the diff and decide. The user takes "
    "an edit back with: vivace undo"
)

_Path = Annotated[
    str,
    Meta(
        description="The file, from the project's folder, as in src/shop.py. It must be there "
        "already."
    ),
]


class EditFile(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    instruction: Annotated[
        str,
        Meta(
            max_length=LONGEST_INSTRUCTION,
            description="The change, in one or two sentences. Name the function or class that it "
            "is about, and everything that is to be removed, as in: In load(), close the file with "
            "a with statement. Or: rename `total` to `sum_of_prices`.",
        ),
    ]
    selection: (
        Annotated[
            str,
            Meta(
                pattern=r"^[0-9]{1,9}(-[0-9]{1,9})?$",
                description="The lines to change, counted from 1, as in 40-60. Only needed where "
                "the instruction does not tell which part of the file is meant.",
            ),
        ]
        | None
    ) = None


class ApplySketch(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    sketch: Annotated[
        str,
        Meta(
            max_length=LONGEST_SKETCH,
            description="The new code, as it is to stand in the file. Write out each function that "
            "changes or is new, methods inside their class, and the imports they need. Leave "
            "everything else out, and say where with a line such as: // ... existing code ... (or "
            "# ... existing code ... in Python).",
        ),
    ]
    instruction: (
        Annotated[
            str,
            Meta(
                max_length=LONGEST_INSTRUCTION,
                description="What the sketch is to do, in a sentence. Name here what it removes on "
                "purpose: an edit that drops what nobody named is not written.",
            ),
        ]
        | None
    ) = None


class Tool(Struct, frozen=True):
    name: str
    title: str
    description: str
    arguments: type[EditFile] | type[ApplySketch]

    @property
    def schema(self) -> dict[str, Any]:
        """Of its arguments, as JSON Schema."""
        _, known = msgspec.json.schema_components([self.arguments])
        schema = dict(known[self.arguments.__name__])
        del schema["title"]  # the name of our class
        return schema


TOOLS = (
    Tool(
        name="edit_file",
        title="Edit a file as told",
        description="Change one file as an instruction says. A fast local model makes the change, "
        "so you need neither read the file nor write its code. Use it for one small, clear change "
        "in one place: call it again for the next. It returns the diff that was written, and "
        "what was checked: that the file still parses, and that nothing else was changed or lost. "
        "If the change looks wrong, or it is not clear which part of the file is meant, nothing is "
        "written and the answer says why. It cannot make, move or delete files.",
        arguments=EditFile,
    ),
    Tool(
        name="apply_sketch",
        title="Put sketched code into a file",
        description="Put code that you wrote into one file without repeating the rest of the file. "
        "Give the functions, methods or classes that change or are new, and leave out what stays. "
        "Definitions take the place of those with the same name; new ones go where they stand in "
        "the sketch; a fast local model merges what cannot be placed by name. It returns the diff "
        "that was written, and what was checked. If the change looks wrong, nothing is written and "
        "the answer says why. Use edit_file instead where you can say the change in a sentence. It "
        "cannot make, move or delete files.",
        arguments=ApplySketch,
    ),
)
