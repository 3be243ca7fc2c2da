import unittest

from tokens import SyntaxProblem, tokenize


class Tokens(unittest.TestCase):
    def test_pieces_come_with_their_columns(self):
        self.assertEqual(
            list(tokenize("rate*1.5 ** 2")),
            [
                ("name", "rate", 1),
                ("op", "*", 5),
                ("number", "1.5", 6),
                ("op", "**", 10),
                ("number", "2", 13),
                ("end", "", 14),
            ],
        )

    def test_an_unknown_character_is_refused_where_it_stands(self):
        with self.assertRaisesRegex(SyntaxProblem, "'#' at column 3"):
            list(tokenize("1 # 2"))


if __name__ == "__main__":
    unittest.main()
