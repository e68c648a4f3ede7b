"""Module headers, as CONTRIBUTING.md describes them, and a search in them.

Owns        `Header`: the parts of one header with the lines of each; the order in which a search finds modules.
Invariants  H1 a header ends at the first line that is no `//!`; in Python it is the docstring of the file.
            H2 modules that have every word come before all others, and then the better place of a word counts: the
               sentence and the file's name, then *Owns*, then *Doors* and *Limits*. *Not here* and *Spec* count least:
               they name what is elsewhere.
Not here    whether a header is complete: a review judges it.
"""
import dataclasses
import functools
import itertools
import math
import re

from . import ROOT

SENTENCE, TEXT = "sentence", "text"
# The worth of a word in each part. `TEXT_WORTH`: in a part with another name, and in text below the parts.
WORTH = {SENTENCE: 4, "Owns": 3, "Doors": 2, "Limits": 2, "Not here": 0.5, "Spec": 0.3}
NAME_WORTH, FOLDER_WORTH, TEXT_WORTH = 4, 2, 1.5
PART = re.compile(r"^([A-Z][a-z]+(?: [a-z]+){0,2}) {2,}(?=\S)")
INLINE = re.compile(r" {3,}(?=[A-Z][a-z]+(?: [a-z]+)? {2,}\S)")
WORD = re.compile(r"[A-Za-z0-9]+")
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# With the letters that must be left.
SUFFIXES = (("ies", 3), ("ing", 3), ("ed", 3), ("es", 3), ("s", 2), ("e", 3), ("y", 3))
# Crates that simulate or measure the others have the words of these, so they come later.
MODELS = {"bench", "demo", "lab", "sim", "test-kit", "traffic"}
MODELS_WORTH = 0.5
STOP_WORDS = set("a an and are by for how in is it may of on or the to what when where which who".split())


@dataclasses.dataclass
class Line:
    part: str
    statement: int
    """Number of the line with which its part begins."""
    number: int
    text: str


@dataclasses.dataclass
class Header:
    path: str
    lines: list


def parse(path, numbered):
    """Header of numbered lines without their comment marks."""
    lines, part, statement = [], SENTENCE, 1
    for number, whole in numbered:
        for text in INLINE.split(whole):
            if found := PART.match(text):
                part, statement, text = found[1], number, text[found.end() :]
            elif not text.strip():
                part, statement = TEXT, number + 1
            elif part != SENTENCE and not text.startswith("  "):
                part = TEXT
            if text.strip():
                lines.append(Line(part, statement, number, text.strip()))
    return Header(path, lines)


def rust_lines(text):
    """H1"""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("//!"):
            return
        yield number, line[3:].removeprefix(" ")


def python_lines(text):
    """H1"""
    before, quotes, rest = text.partition('"""')
    if quotes and re.fullmatch(r"(#[^\n]*\n)*", before):
        for number, line in enumerate(rest.partition('"""')[0].split("\n"), before.count("\n") + 1):
            # Commands and examples are no statements.
            yield number, "" if re.match(r" {4}\S", line) else line


def read(root=ROOT):
    """Headers of the crates' modules, and of the programs in tools/."""
    paths = [(path, rust_lines) for path in sorted((root / "crates").glob("*/src/**/*.rs"))]
    paths += [(path, python_lines) for path in sorted((root / "tools").glob("**/*")) if path.suffix in ("", ".py")]
    for path, lines in paths:
        if path.is_file():
            header = parse(str(path.relative_to(root)), lines(path.read_text(encoding="utf-8")))
            if header.lines:
                yield header


@functools.cache
def stem(word):
    for suffix, letters_min in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= letters_min:
            return word[: -len(suffix)]
    return word


@functools.cache
def tokens(text):
    """The different words of a text. Names in `CamelCase` count as one word and as several."""
    found = {}
    for word in WORD.findall(text):
        parts = CAPITAL.split(word)
        found.update(dict.fromkeys(part.lower() for part in (word, *parts)))
    return tuple(found)


@functools.cache
def likeness(asked, word):
    """How much a word is the word of a query, from 0 to 1."""
    if asked == word:
        return 1
    if stem(asked) == stem(word):
        return 0.9
    if len(stem(asked)) >= 4 and word.startswith(stem(asked)):
        return 0.7
    return 0.5 if len(stem(word)) >= 6 and asked.startswith(stem(word)) else 0


def best(asked, text):
    return max((likeness(asked, word) for word in tokens(text)), default=0)


@dataclasses.dataclass
class Found:
    header: Header
    line: Line
    words: set
    score: float


def words_of(query):
    words = list(dict.fromkeys(word.lower() for word in WORD.findall(query)))
    return [word for word in words if word not in STOP_WORDS] or words


def rate(words, header):
    """For each word of a query its worth in the header; the words that the best statement has; and its best line."""
    path = header.path.removesuffix(".rs").removesuffix("/mod").removesuffix("/lib").removesuffix("/src")
    folder, _, name = path.rpartition("/")
    worth = {word: max(NAME_WORTH * best(word, name), FOLDER_WORTH * best(word, folder)) for word in words}
    statements = []
    for _, lines in itertools.groupby(header.lines, key=lambda line: (line.part, line.statement)):
        rated = [(line, {word: WORTH.get(line.part, TEXT_WORTH) * best(word, line.text) for word in words}) for line in lines]
        for _, here in rated:
            worth = {word: max(worth[word], here[word]) for word in words}
        together = {word for _, here in rated for word in words if here[word]}
        line, here = max(rated, key=lambda one: (sum(value > 0 for value in one[1].values()), sum(one[1].values())))
        statements.append((len(together), sum(here.values()), -line.number, line, together))
    *_, line, together = max(statements, key=lambda one: one[:3])
    return worth, together, line


def search(query, headers):
    """H2: the modules that have words of the query, the best first."""
    words = words_of(query)
    rated = [(header, *rate(words, header)) for header in headers]
    having = {word: sum(worth[word] > 0 for _, worth, _, _ in rated) for word in words}
    rarity = {word: math.log(1 + len(rated) / (1 + having[word])) for word in words}
    found = []
    for header, worth, together, line in rated:
        if has := {word for word in words if worth[word]}:
            # Words of one statement belong together.
            score = sum(worth[word] * rarity[word] for word in words) * (1 + 0.25 * max(0, len(together) - 1))
            if header.path.split("/")[1] in MODELS:
                score *= MODELS_WORTH
            found.append(Found(header, line, has, score))
    return sorted(found, key=lambda one: (-len(one.words), -one.score, one.header.path))
