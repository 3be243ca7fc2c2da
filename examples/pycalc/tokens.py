"""Cuts the text of an expression into tokens."""

import re
from typing import Iterator, NamedTuple


class Token(NamedTuple):
    """A piece of an expression and the column, from 1, at which it starts."""

    kind: str  # "number", "name", "op" or "end"
    text: str
    column: int


class SyntaxProblem(ValueError):
    """An expression that cannot be read, with the column of the fault."""

    def __init__(self, message: str, column: int):
        super().__init__(f"{message} at column {column}")
        self.column = column


_PIECES = re.compile(
    r"""
      (?P<blank>\s+)
    | (?P<number>\d+(?:\.\d+)?|\.\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<op>\*\*|[-+*/%(),])
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> Iterator[Token]:
    """Yields the tokens of text, and at last one of kind "end"."""
    at = 0
    while at < len(text):
        piece = _PIECES.match(text, at)
        if piece is None:
            raise SyntaxProblem(f"unexpected {text[at]!r}", at + 1)
        if piece.lastgroup != "blank":
            yield Token(piece.lastgroup, piece.group(), at + 1)
        at = piece.end()
    yield Token("end", "", len(text) + 1)
