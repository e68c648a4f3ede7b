"""The pages of the report, from results that are written down here."""
import unittest

import pages
import plots
from experiments import HIGHER, LOWER, Experiment, Row


def kept(result):
    return {"commit": "abc", "command": "bench x", "machine": "m", "date": "2026-01-01", "load": 1, "seconds": 2,
            "chat": "texts", "result": result}


EXPERIMENT = Experiment(
    "x", "Title <x>", "Text.", ("x",),
    (
        Row("fewer is better", lambda r: r["a"], "bytes", 10, LOWER),
        Row("more is better", lambda r: r["b"], "%", 40, HIGHER),
        Row("not judged", lambda r: r["c"], "ms", 5),
        Row("not published", lambda r: r["c"], "ms"),
    ),
)


class Pages(unittest.TestCase):
    def test_worse_rows_come_first_and_are_marked(self):
        rows = pages.rows_of(EXPERIMENT, kept({"a": 9, "b": 30, "c": 7}))
        self.assertEqual([row[0] for row in rows][0], "more is better")
        text = pages.markdown([(EXPERIMENT, kept({"a": 9, "b": 30, "c": 7}))], ["Other"])
        self.assertIn("| more is better | 40 % | **30 %** | 0.75 × |", text)
        self.assertIn("| fewer is better | 10 bytes | 9 bytes | 0.90 × |", text)
        self.assertIn("Of 2 judged figures 1 are worse", text)
        self.assertIn("Not run: Other.", text)

    def test_a_value_that_is_missing_is_not_judged(self):
        rows = {row[0]: row for row in pages.rows_of(EXPERIMENT, kept({"a": None, "b": 50, "c": 7}))}
        self.assertIsNone(rows["fewer is better"][-1])
        self.assertIs(rows["more is better"][-1], True)

    def test_the_first_screen_has_headlines_and_worse_ones_first(self):
        rows = (Row("a", lambda r: r["a"], "", 1, LOWER, headline="better"), Row("b", lambda r: r["b"], "×", None, HIGHER, 1.0, "worse"))
        table = pages.short_table([(Experiment("x", "T", "t", (), rows), kept({"a": 0.5, "b": 0.9}))])
        self.assertEqual(table.splitlines()[2:], ["| worse | 1 ×, same run | **0.9 ×** |  |", "| better | 1 | 0.5 | 0.50 × |"])

    def test_a_result_of_an_older_form_leaves_the_figure_out(self):
        text = pages.markdown([(EXPERIMENT, kept({}))], [])
        self.assertIn("| more is better | 40 % | – |  |", text)

    def test_texts_are_escaped(self):
        page = pages.html([(EXPERIMENT, kept({"a": 1, "b": 50, "c": 7}))], [])
        self.assertIn("Title &lt;x&gt;", page)
        self.assertNotIn("Title <x>", page)

    def test_the_longest_bar_fits(self):
        picture = plots.bars("t", [("one", 1, "1", False), ("hundred", 100, "100", True)], "bytes")
        self.assertIn(f'width="{plots.WIDTH - plots.LABEL_WIDTH - plots.VALUE_WIDTH:.1f}"', picture)


if __name__ == "__main__":
    unittest.main()
