import unittest
from fractions import Fraction

from calc import CalculationError, evaluate
from tokens import SyntaxProblem


class Values(unittest.TestCase):
    def check(self, *cases):
        for text, want in cases:
            self.assertEqual(evaluate(text), want, text)

    def test_products_come_before_sums(self):
        self.check(("2 + 3 * 4", 14), ("2 * 3 + 4", 10), ("(2 + 3) * 4", 20))

    def test_subtraction_groups_from_the_left(self):
        self.check(("10 - 4 - 3", 3), ("1 - 2 + 3", 2))

    def test_division_groups_from_the_left(self):
        self.check(("100 / 10 / 2", 5), ("8 / 4 * 2", 4), ("7 % 4 * 2", 6))

    def test_powers_group_from_the_right(self):
        self.check(("2 ** 3 ** 2", 512), ("2 ** -1", Fraction(1, 2)))

    def test_a_sign_binds_looser_than_a_power(self):
        self.check(("-2 ** 2", -4), ("(-2) ** 2", 4), ("-2 * 3", -6), ("--1", 1))

    def test_decimals_are_exact(self):
        self.check(("0.1 + 0.2", Fraction("0.3")), (".5 * 2", 1))

    def test_names_and_functions(self):
        self.assertEqual(evaluate("width * 2", {"width": Fraction(21)}), 42)
        self.check(("max(1, 5, 3)", 5), ("abs(-3)", 3), ("min(2)", 2))


class Faults(unittest.TestCase):
    def test_bad_syntax_names_its_column(self):
        for text, column in (("1 +", 4), ("(1", 3), ("1 2", 3), ("x", 1), ("2 $ 3", 3), ("", 1)):
            with self.assertRaises(SyntaxProblem) as caught:
                evaluate(text)
            self.assertEqual(caught.exception.column, column, text)

    def test_what_has_no_value_is_refused(self):
        for text in ("1 / 0", "1 % 0", "0 ** -1", "2 ** 0.5", "2 ** 99999"):
            with self.assertRaises(CalculationError, msg=text):
                evaluate(text)


if __name__ == "__main__":
    unittest.main()
