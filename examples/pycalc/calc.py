"""Evaluates arithmetic: + - * / % **, brackets, names and a few functions.

The parser climbs precedences: each binary operator has a level, and one that
binds tighter is taken first. Numbers are exact (fractions), so that
0.1 + 0.2 is 0.3.
"""

import sys
from fractions import Fraction
from typing import Mapping, Optional

from tokens import SyntaxProblem, Token, tokenize

# Operator: how tight it binds, and whether equals group from the right.
_BINARY = {
    "+": (1, False),
    "-": (1, False),
    "*": (2, False),
    "/": (2, False),
    "%": (2, False),
    "**": (4, True),
}
_UNARY_LEVEL = 3  # -2 ** 2 is -(2 ** 2), but -2 * 3 is (-2) * 3

_FUNCTIONS = {"abs": abs, "min": min, "max": max, "round": round}

_MAX_EXPONENT = 10_000


class CalculationError(ArithmeticError):
    """An expression that can be read but has no value."""


class _Parser:
    def __init__(self, text: str, names: Mapping[str, Fraction]):
        self._tokens = list(tokenize(text))
        self._at = 0
        self._names = names

    def value(self) -> Fraction:
        result = self._expression(0)
        if self._next.kind != "end":
            raise self._problem()
        return result

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _expect(self, text: str) -> None:
        if self._next.text != text:
            raise SyntaxProblem(f"expected {text!r}", self._next.column)
        self._take()

    def _problem(self) -> SyntaxProblem:
        found = repr(self._next.text) if self._next.text else "end"
        return SyntaxProblem(f"unexpected {found}", self._next.column)

    def _expression(self, lowest: int) -> Fraction:
        """Reads operands joined by operators of at least level lowest."""
        left = self._operand()
        while self._next.kind == "op" and self._next.text in _BINARY:
            level, from_right = _BINARY[self._next.text]
            if level < lowest:
                break
            operator = self._take().text
            right = self._expression(level)
            left = _apply(operator, left, right)
        return left

    def _operand(self) -> Fraction:
        if self._next.kind == "number":
            return Fraction(self._take().text)
        if self._next.kind == "name":
            return self._named()
        if self._next.text in ("-", "+"):
            sign = -1 if self._take().text == "-" else 1
            return sign * self._expression(_UNARY_LEVEL)
        if self._next.text == "(":
            self._take()
            inner = self._expression(0)
            self._expect(")")
            return inner
        raise self._problem()

    def _named(self) -> Fraction:
        name = self._take()
        if self._next.text == "(":
            return self._call(name)
        if name.text not in self._names:
            raise SyntaxProblem(f"unknown name {name.text!r}", name.column)
        return Fraction(self._names[name.text])

    def _call(self, name: Token) -> Fraction:
        if name.text not in _FUNCTIONS:
            raise SyntaxProblem(f"unknown function {name.text!r}", name.column)
        self._expect("(")
        arguments = [self._expression(0)]
        while self._next.text == ",":
            self._take()
            arguments.append(self._expression(0))
        self._expect(")")
        if name.text in ("min", "max"):
            return _FUNCTIONS[name.text](arguments)
        if len(arguments) != 1:
            raise SyntaxProblem(f"{name.text} takes one argument", name.column)
        return Fraction(_FUNCTIONS[name.text](arguments[0]))


def _apply(operator: str, left: Fraction, right: Fraction) -> Fraction:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "**":
        return _power(left, right)
    if right == 0:
        raise CalculationError("division by zero")
    return left / right if operator == "/" else left % right


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise CalculationError("an exponent must be a whole number")
    if abs(exponent) > _MAX_EXPONENT:
        raise CalculationError("the exponent is too large")
    if base == 0 and exponent < 0:
        raise CalculationError("division by zero")
    return base ** int(exponent)


def evaluate(text: str, names: Optional[Mapping[str, Fraction]] = None) -> Fraction:
    """Returns the value of an expression.

    Raises SyntaxProblem if it cannot be read, CalculationError if it has no
    value.
    """
    return _Parser(text, names or {}).value()


def main() -> int:
    try:
        result = evaluate(" ".join(sys.argv[1:]))
    except (SyntaxProblem, CalculationError) as problem:
        print(problem, file=sys.stderr)
        return 1
    print(result if result.denominator == 1 else float(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
