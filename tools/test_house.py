"""The rules of tools/house, each seen to fail. Run by `make tidy`: python3 -m unittest discover -s tools"""
import contextlib
import io
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from house import (
    ROOT,
    circles,
    citations,
    comments,
    crates,
    documents,
    headers,
    names,
    program,
    queues,
    runbook,
    series,
    stages,
    supply,
    tests,
)

TABLE = """## The map
| crate | idea |
|---|---|
| `top` | |
| `middle` | |
| — | *below this line: no sockets* |
| `bottom` | |
| `test-kit` | |
## Next
"""


def package(name, *dependencies):
    return {
        "name": f"guildhall-{name}",
        "manifest_path": f"/x/crates/{name}/Cargo.toml",
        "dependencies": [
            {"name": f"guildhall-{other}", "path": "/x", "kind": kind} for other, kind in dependencies
        ],
    }


def problems_of_order(*packages):
    return list(crates.check_order(crates.Graph(packages), *crates.read_table(TABLE)))


class Links(unittest.TestCase):
    def test_headings_of_links_exist(self):
        self.assertEqual(citations.slug("By URL: `jwks_url`, and *more*"), "by-url-jwks_url-and-more")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("# One\n\n## Two words\n\n```\n# no heading\n```\n\n# One\n", encoding="utf-8")

            def problems(line):
                return list(citations.check_line(page, line, set(), set()))

            self.assertEqual(problems("[a](page.md#two-words) [b](#one-1) [c](page.md) [d](https://x.example/#y)"), [])
            self.assertEqual(problems("[a](page.md#no-heading)"), ["page.md has no heading #no-heading"])
            self.assertEqual(problems("[a](#three)"), ["this page has no heading #three"])
            self.assertEqual(problems("[a](other.md#one)"), ["the link to other.md leads nowhere"])


class Citations(unittest.TestCase):
    def problems(self, line):
        return list(citations.check_line(ROOT / "crates" / "relay" / "src" / "a.rs", line, {"1.7", "8.6"}, {19}))

    # Names apart from what cites them, since this file is checked too.
    BACKEND, REFERENCE = "docs/backend-api.md", "docs/protocol/reference.md"

    def test_sections_are_those_of_the_reference(self):
        fine = f'{self.BACKEND} "Keys"; {self.REFERENCE} §1.7, §8.6; RFC 7692 §7.2.1; reference.md §1.7; §8.6'
        self.assertEqual(self.problems(fine), [])
        self.assertEqual(self.problems("see §" + "1.8"), ["§" + f"1.8 is no section of {self.REFERENCE}"])
        wanted = f"{self.BACKEND} has no numbered sections: §1.7 is one of {self.REFERENCE}"
        self.assertEqual(self.problems(f"{self.BACKEND} §1.7."), [wanted])
        self.assertEqual(len(self.problems(self.REFERENCE.replace("protocol", "operations") + " §1.7")), 1)
        self.assertEqual(len(self.problems(f"{self.REFERENCE} 1.7")), 1)

    def test_quoted_headings_exist(self):
        self.assertEqual(self.problems(f'{self.BACKEND} "Keys", "Objects"'), [])
        self.assertEqual(self.problems(f'{self.BACKEND} "Keys", "Locks"'), [f'{self.BACKEND} has no heading "Locks"'])
        self.assertEqual(self.problems(f'{self.REFERENCE} "Connection"'), [])
        self.assertEqual(self.problems(f'{self.REFERENCE} §8.6 "Rows"'), [])
        self.assertEqual(self.problems(f'{self.REFERENCE} §8.6 "Columns"'), [f'{self.REFERENCE} does not say "Columns"'])


class Series(unittest.TestCase):
    PAGE = "## Metrics\n\n| series (`guildhall_…`) | meaning |\n|---|---|\n| `sent_total{why}`, `now` | x |\n| `took_seconds` | x |\n\nEnd"

    def problems(self, text):
        return [f"{number}: {problem}" for _, number, problem in series.problems(self.PAGE, [(series.PAGE, text)])]

    def test_a_series_of_the_table_may_be_read(self):
        self.assertEqual(self.problems("rate(guildhall_sent_total[1m])\nguildhall_took_seconds_bucket guildhall_now"), [])

    def test_a_renamed_series_is_named_with_its_line(self):
        wanted = "2: guildhall_told_total is not in the table of series of docs/operations/reference.md"
        self.assertEqual(self.problems("guildhall_now\nsum(guildhall_told_total)"), [wanted])


    def test_the_table_has_the_metrics_of_the_code(self):
        code = 'out.counters(\n  "sent",\n  "x")?;\nout.gauge("now", "y", 1)?;\nout.durations("took_seconds", help, all)'

        def found(text):
            return [f"{number}: {problem}" for _, number, problem in series.unlike(self.PAGE, [(series.PAGE, text)])]

        self.assertEqual(found(code), [])
        page = "is not in the table of series of docs/operations/reference.md"
        self.assertEqual(found(code + '\nout.gauge_f64("new", "z", 1)?;'), [f"6: new {page}"])
        self.assertEqual(found(code.replace("out.gauge(", "out.counter(")), [
            f"4: now_total {page}", "5: crates/telemetry writes no metric now",
        ])


class Runbook(unittest.TestCase):
    RULE = '  - alert: Down\n    annotations:\n      do: "x"\n      runbook: "docs/operations.md#down"\n'
    PAGE = "# Page\n\n## Runbook\n\n### Down\n\n- **Means:** a\n- **Look at:** b\n- **Do:** c\n"

    def problems(self, rules, page):
        return [f"{number}: {problem}" for _, number, problem in runbook.problems(rules, page)]

    def test_each_alert_has_its_section(self):
        self.assertEqual(self.problems(self.RULE, self.PAGE), [])
        self.assertEqual(self.problems(self.RULE, "# Page\n\n### Down\n"), ["1: the runbook has no section Down"])
        second = self.RULE + '  - alert: Full\n    annotations:\n      runbook: "docs/operations.md#down"\n'
        self.assertEqual(self.problems(second, self.PAGE), [
            '5: Full lacks the annotation runbook: "docs/operations.md#full"',
            "5: the runbook has no section Full",
        ])
        self.assertEqual(self.problems("", self.PAGE), ["1: there is no alert", "5: there is no alert Down"])

    def test_a_section_says_what_to_do(self):
        text = self.PAGE.replace("- **Do:** c\n", "\n## Next\n\n- **Do:** c\n")
        self.assertEqual(self.problems(self.RULE, text), ["5: Down needs one line that begins with - **Do:**"])


class NamesInDocuments(unittest.TestCase):
    NAMES = names.Names([
        "pub struct Relay {\n    epoch: u32,\n}\n\nimpl Relay {\n    pub fn handle(&mut self) {}\n}\n",
        "pub enum Job {\n    Search,\n    Count(u32),\n}\n\nfn transfer() {}\nstruct Link<'a>(&'a u8);\n",
    ])

    def problems(self, check, text):
        return [problem for _, problem in check(text, self.NAMES)]

    def test_names_of_the_architecture_exist(self):
        fine = "`Relay::handle`, `Job::Count`, `Relay`, `relay.rs`, `cargo test`, `op`, `SOME_LIMIT`"
        self.assertEqual(self.problems(names.check_architecture, fine), [])
        self.assertEqual(self.problems(names.check_architecture, "`Picture`"), ["no code defines `Picture` of `Picture`"])
        self.assertEqual(self.problems(names.check_architecture, "`Relay::transfer`"), ["`Relay` has no `transfer`"])

    def test_members_that_documents_name_exist(self):
        fine = "`Relay::handle` and `TcpStream::connect`, whose type is another's"
        self.assertEqual(self.problems(names.check_document, fine), [])
        self.assertEqual(self.problems(names.check_document, "`Relay::transfer()`"), ["`Relay` has no `transfer`"])

    def test_files_of_the_architecture_exist(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "relay" / "src" / "audience.rs"
            file.parent.mkdir(parents=True)
            file.touch()
            text = "| `relay` | fan-out | `audience.rs`, `gone.rs` |\n| who? | `relay/src/audience.rs`, `relay/src/old.rs` |\n"
            found = list(names.missing_files(text, pathlib.Path(folder)))
            self.assertEqual(found, [(1, "there is no crates/relay/src/gone.rs"), (2, "there is no crates/relay/src/old.rs")])

    def test_the_glossary_says_what_code_has(self):
        self.assertEqual(self.problems(names.check_glossary, "| relay | a replica | `Relay` |"), [])
        self.assertIn("no code defines", self.problems(names.check_glossary, "| relay | | `Replica` |")[0])

    def test_retired_names_do_not_return(self):
        rows = names.read_retired(
            "# name | where | instead\nPicture | everywhere | Replica\nGate | relay | Rule\nhad.rs | everywhere | received.rs\n"
        )
        self.assertEqual([row[0] for row in rows], ["Picture", "Gate", "had.rs"])
        with tempfile.TemporaryDirectory() as folder:
            crates = pathlib.Path(folder)

            def found(crate, file, text):
                path = crates / crate / "src" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                problems = [(number, problem) for _, number, problem in names.check_retired(rows, crates)]
                path.unlink()
                return problems

            self.assertEqual(found("relay", "lib.rs", "// A Picture.\nlet x = Picture::new();\nstruct Link;\n"), [])
            self.assertEqual(found("relay", "lib.rs", "\npub struct Picture;\n"), [(2, "`Picture` is a retired name: use Replica")])
            self.assertEqual(len(found("relay", "lib.rs", "enum Job {\n    Picture(u8),\n    Gate { a: u8 },\n}\n")), 2)
            self.assertEqual(found("api", "lib.rs", "struct Gate;\n"), [])
            self.assertEqual(found("api", "had.rs", ""), [(1, "`had.rs` is a retired name: use received.rs")])


class Crates(unittest.TestCase):
    def test_downwards_is_fine(self):
        everything = (
            package("top", ("middle", None), ("test-kit", "dev")),
            package("middle", ("bottom", None)),
            package("bottom"),
            package("test-kit", ("top", None)),
        )
        self.assertEqual(problems_of_order(*everything), [])

    def test_c1_upwards_is_not(self):
        found = problems_of_order(package("top"), package("middle"), package("bottom", ("top", "build")), package("test-kit"))
        self.assertEqual(len(found), 1)
        self.assertIn("bottom depends on top, which is above it", found[0])

    def test_c3_the_test_kit_is_for_tests(self):
        found = problems_of_order(package("top", ("test-kit", None)), package("middle"), package("bottom"), package("test-kit"))
        self.assertIn("make it a dev-dependency", found[0])

    def test_unknown_crates(self):
        found = problems_of_order(package("top"), package("bottom"), package("new"), package("test-kit"))
        self.assertEqual([line.split(": ", 1)[1] for line in found], [
            "new is not in the table of ARCHITECTURE.md",
            "there is no crate middle",
        ])

    def test_c2_nothing_below_brings_a_runtime(self):
        def resolved(kind):
            return {
                "packages": [{"id": n, "name": n} for n in ("guildhall-bottom", "helper", "tokio")],
                "workspace_members": ["guildhall-bottom"],
                "resolve": {"nodes": [
                    {"id": "guildhall-bottom", "deps": [{"pkg": "helper", "dep_kinds": [{"kind": None}]}]},
                    {"id": "helper", "deps": [{"pkg": "tokio", "dep_kinds": [{"kind": kind}]}]},
                    {"id": "tokio", "deps": []},
                ]},
            }
        _, below = crates.read_table(TABLE)
        self.assertEqual(list(crates.check_closure(resolved("dev"), below)), [])
        self.assertIn("a runtime: bottom → helper → tokio", list(crates.check_closure(resolved(None), below))[0])

    def test_arrows_that_follow_are_left_out(self):
        found = crates.Graph([package("top", ("middle", None), ("bottom", None)), package("middle", ("bottom", None)),
                              package("bottom")])
        self.assertEqual(list(found.arrows()), [("top", "middle"), ("middle", "bottom")])
        self.assertEqual(found.dependants({"middle"}), {"middle", "top"})

    def test_c5_unsafe_code_is_forbidden(self):
        for name, text, count in (
            ("guild", "#![forbid(unsafe_code)]", 0),
            ("guild", "#![deny(unsafe_code)]", 1),
            ("slab", "#![deny(unsafe_code)]", 0),
            ("slab", "", 1),
        ):
            self.assertEqual(len(list(crates.check_unsafe(name, {"lib.rs": text}))), count, (name, text))

    def test_c6_the_picture_goes_between_its_marks(self):
        text = f"a\n{crates.BEGIN}\nold\n{crates.END}\nb"
        self.assertEqual(crates.with_picture(text, "new"), f"a\n{crates.BEGIN}\nnew\n{crates.END}\nb")


    def test_c7_what_is_not_run_does_not_exist(self):
        sources = {"a.rs": "#[test]\nfn a() {}", "b.rs": "/// ```\n/// one();\n/// ```\nfn b() {}", "c.rs": "fn c() {}"}
        for settings, files in (("", []), ("test = false\n", ["a.rs"]), ("doctest = false\n", ["b.rs"])):
            found = list(crates.check_turned_off(f"[lib]\n{settings}\n[lints]\n", sources))
            self.assertEqual([problem.partition(":")[0] for problem in found], files)


class Clippy(unittest.TestCase):
    """The two kinds of clippy.toml, each given to Clippy itself."""

    PROBES = (
        "std::time::Instant::now()",
        "std::time::SystemTime::now()",
        "std::thread::spawn(|| ())",
        "std::thread::sleep(std::time::Duration::ZERO)",
        "std::sync::mpsc::channel::<u8>()",
        "std::hash::RandomState::new()",
        'std::fs::read("x")',
        'std::fs::File::open("x")',
        'std::path::Path::new("x").exists()',
        'std::env::var("X")',
        'std::process::Command::new("x")',
        'std::net::TcpStream::connect("x")',
        'std::net::UdpSocket::bind("x")',
        "std::net::TcpListener::bind(\"x\")",
    )
    NEVER = 'unsafe { std::env::set_var("A", "b") }'

    def refused(self, conf, expressions):
        """Those of the expressions that Clippy refuses under the clippy.toml of a folder."""
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, check=True, capture_output=True, text=True)
        lines = [f"pub fn probe_{at}() {{ let _ = {text}; }}" for at, text in enumerate(expressions)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "probe.rs"
            path.write_text("\n".join(lines))
            done = subprocess.run(
                [f"{sysroot.stdout.strip()}/bin/clippy-driver", "--edition", "2024", "--crate-type", "lib", "--emit", "metadata",
                 "--error-format", "short", "--out-dir", folder, path],
                env={**os.environ, "CLIPPY_CONF_DIR": str(conf)}, capture_output=True, text=True, check=False,
            )
        self.assertNotIn("error", done.stderr)
        found = {int(line) for line in re.findall(r"probe\.rs:(\d+):.*use of a disallowed", done.stderr)}
        return [text for at, text in enumerate(expressions, 1) if at in found]

    def test_c4_below_the_line_everything_is_refused(self):
        self.assertEqual(self.refused(ROOT, self.PROBES), list(self.PROBES))

    def test_c4_above_it_only_what_nobody_may(self):
        self.assertEqual(self.refused(ROOT / "crates" / "net", (*self.PROBES, self.NEVER)), [self.NEVER])


class Supply(unittest.TestCase):
    def test_s2_licence_expressions(self):
        for expression, expected in (
            ("MIT", True),
            ("MIT OR Apache-2.0", True),
            ("MIT/Apache-2.0", True),
            ("GPL-3.0-only", False),
            ("GPL-3.0-only OR MIT", True),
            ("MIT AND GPL-3.0-only", False),
            ("(MIT OR GPL-2.0-only) AND ISC", True),
            ("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", False),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", True),
            ("", False),
            ("(MIT", False),
            ("MIT MIT", False),
        ):
            self.assertEqual(supply.is_allowed(expression), expected, expression)

    def test_s1_sources(self):
        ours = '[[package]]\nname = "guildhall"\nversion = "1.0.0"\n'
        good = f'[[package]]\nname = "a"\nversion = "1.0.0"\nsource = "{supply.REGISTRY}"\nchecksum = "ab"\n'
        self.assertEqual(list(supply.check_sources("Cargo.lock", ours + good)), [])
        for bad in (good.replace("index", "fork"), good.replace('checksum = "ab"\n', "")):
            self.assertEqual(len(list(supply.check_sources("Cargo.lock", bad))), 1)

    def test_s3_duplicates(self):
        twice = "".join(f'[[package]]\nname = "a"\nversion = "{v}.0.0"\n' for v in (1, 2))
        self.assertIn("a is there twice", list(supply.check_duplicates(twice, {}))[0])
        self.assertEqual(list(supply.check_duplicates(twice, {"a": "why"})), [])
        self.assertIn("a is no longer", list(supply.check_duplicates("", {"a": "why"}))[0])


class Commits(unittest.TestCase):
    def test_messages(self):
        body = "\n\nA relay that reconnects could receive old messages."
        for message, problem in (
            ("relay: drop messages of an older epoch" + body, None),
            ("api, node: end revoked streams" + body, None),
            ("relay: drop messages of an older epoch", "there is no body"),
            ("relay: drop messages of an older epoch\nwhich were wrong", "the second line"),
            ("Drop messages" + body, "not `area: imperative`"),
            ("x", "not `area: imperative`"),
            ("relay: dropped" + "." + body, "full stop"),
            ("relay: fixes the epoch" + body, "give an order"),
            ("relay: drop " + "x" * 72 + body, "84 characters"),
        ):
            found = list(program("commit-check").check(message))
            self.assertIn(problem, "; ".join(found)) if problem else self.assertEqual(found, [])

    def test_small_changes_need_no_body(self):
        check = program("commit-check").check
        self.assertEqual(list(check("docs: mend a link", 2)), [])
        self.assertEqual(len(list(check("docs: mend a link", 200))), 1)


class Comments(unittest.TestCase):
    def test_w1_only_the_breaks_change(self):
        for path in sorted(ROOT.glob("crates/*/src/**/*.rs")):
            text = path.read_text(encoding="utf-8")
            wrapped = comments.wrap(text)
            self.assertEqual(wrapped, comments.wrap(wrapped), path)
            plain = [" ".join(t.replace("//!", "").replace("///", "").replace("//", "").split()) for t in (text, wrapped)]
            self.assertEqual(*plain, path)

    def test_w2_and_w3(self):
        words = "word " * 30
        item = comments.wrap(f"/// - {words}").split("\n")
        self.assertTrue(item[1].startswith("///   word"), item)
        header = comments.wrap(f"//! Owns        {words}\n//!             {words}").split("\n")
        self.assertTrue(header[0].startswith("//! Owns        word") and header[1].startswith("//!             word"), header)
        for kept in (f"let x = 1; // {words}", f"/// | {words} |", f"/// ```\n/// {words}\n/// ```", f"// {'x' * 200}"):
            self.assertEqual(comments.wrap(kept), kept)

    def test_w4_only_what_can_be_wrapped_is_reported(self):
        words = "word " * 30
        self.assertEqual(list(comments.wide_lines(f"    // short\n    // {words}\n//! | {words} |\n")), [(2, len(words) + 7)])
        self.assertEqual(list(comments.wide_lines(f"// short\nlet x = 1; // {words}\n")), [])


class Where(unittest.TestCase):
    RELAY = (
        "//! Relay: events of a guild for its sessions.\n"
        "//!\n"
        "//! Owns        the replica of the guild, and\n"
        "//!             its change log.\n"
        "//! Not here    archived threads: `guild`.     Spec  docs/page.md.\n"
        "//!\n"
        "//! A replica is a copy.\n"
        "\n"
        "//! No part of it.\n"
    )
    ARCHIVE = "//! Archiving of threads.\n//!\n//! Limits  `THREADS_MAX`.\n"
    OTHER = "//! Sessions: the end of a RelayStream.\n"

    def parse(self, path, text):
        return headers.parse(path, headers.rust_lines(text))

    def found(self, query):
        paths = {"crates/relay/src/relay.rs": self.RELAY, "crates/guild/src/archive.rs": self.ARCHIVE,
                 "crates/session/src/lib.rs": self.OTHER}
        return headers.search(query, [self.parse(path, text) for path, text in paths.items()])

    def paths(self, query):
        return [one.header.path.split("/")[1] for one in self.found(query)]

    def test_h1_a_header_has_parts_and_ends_at_the_code(self):
        lines = [(line.part, line.statement, line.number, line.text) for line in self.parse("a.rs", self.RELAY).lines]
        self.assertEqual(lines, [
            ("sentence", 1, 1, "Relay: events of a guild for its sessions."),
            ("Owns", 3, 3, "the replica of the guild, and"),
            ("Owns", 3, 4, "its change log."),
            ("Not here", 5, 5, "archived threads: `guild`."),
            ("Spec", 5, 5, "docs/page.md."),
            ("text", 7, 7, "A replica is a copy."),
        ])

    def test_h1_a_program_has_its_header_in_the_docstring(self):
        text = '#!/usr/bin/env python3\n"""Finds modules.\n\n    tools/x WORD    an example\n\nOwns        the order.\n"""\n"""No."""\n'
        lines = headers.parse("tools/x", headers.python_lines(text)).lines
        self.assertEqual([(line.part, line.number, line.text) for line in lines],
                         [("sentence", 2, "Finds modules."), ("Owns", 6, "the order.")])
        self.assertEqual(list(headers.python_lines('import x\n"""No."""\n')), [])

    def test_words_match_their_forms_and_parts_of_names(self):
        for asked, word, is_match in (
            ("archive", "archiving", True), ("id", "ids", True), ("membership", "members", True),
            ("postgresql", "postgres", True), ("expiry", "expired", True), ("in", "index", False), ("guild", "relay", False),
        ):
            self.assertEqual(headers.likeness(asked, word) > 0, is_match, (asked, word))
        self.assertEqual(headers.tokens("`RelayStream::open_now`"), ("relaystream", "relay", "stream", "open", "now"))
        self.assertEqual(headers.words_of("Who may see a thread?"), ["see", "thread"])
        self.assertEqual(headers.words_of("who"), ["who"])
        self.assertEqual(self.paths("RelayStream"), ["session"])

    def test_h2_all_words_come_first_and_the_sentence_counts_most(self):
        self.assertEqual(self.paths("archived threads"), ["guild", "relay"])
        self.assertEqual(self.paths("guild replica"), ["relay", "guild"])
        self.assertEqual([len(one.words) for one in self.found("guild replica")], [2, 1])
        self.assertEqual(self.paths("nothing"), [])

    def test_the_line_with_most_words_is_shown(self):
        show = program("where").show
        self.assertEqual(show(self.found("change log")[0]), "crates/relay/src/relay.rs:4: Owns  its change log.")
        self.assertEqual(show(self.found("archive")[0]), "crates/guild/src/archive.rs:1: Archiving of threads.")

    def test_questions_lead_to_their_modules(self):
        """The words of a header find its module, also where ARCHITECTURE.md does not list it."""
        everything = list(headers.read())
        for query, path in (
            ("hidden channel", "relay/src/view_change.rs"),
            ("who may see a thread", "guild-protocol/src/thread.rs"),
            ("muted", "relay/src/audience/fan_out.rs"),
            ("seq of a dispatch", "session/src/replay.rs"),
            ("compression history", "partition/src/stream_codec.rs"),
            ("archive threads", "guild/src/archive.rs"),
            ("direct messages", "node/src/directs.rs"),
            ("bans invites webhooks pins", "guild/src/state/resource_index.rs"),
            ("form of a write", "partition/src/writer.rs"),
            ("offset of a match", "shared-match/src/zstd/encoded_parse.rs"),
            ("permessage-deflate negotiation", "net/src/http.rs"),
            ("open connections", "net/src/admission.rs"),
            ("slow REST client", "net/src/progress.rs"),
            ("audit log", "backend/src/audit.rs"),
            ("bandwidth bill", "partition/src/bill.rs"),
            ("memory by owner", "telemetry/src/owners.rs"),
            ("messages to another node", "node/src/cluster/link.rs"),
            ("lease", "node/src/cluster/lease.rs"),
            ("disk full", "guildhall/src/disk.rs"),
            ("database away", "node/src/writes.rs"),
            ("sessions over a restart", "partition/src/handover.rs"),
            ("REST rate limits", "rest/src/limits/mod.rs"),
            ("permissions of backend keys", "backend/src/caller.rs"),
            ("expiry of messages", "node/src/retention.rs"),
        ):
            hits = [one.header.path for one in headers.search(query, everything)][: program("where").SHOWN_MAX]
            self.assertIn(f"crates/{path}", hits, query)


class Circles(unittest.TestCase):
    SOURCES = {
        "lib.rs": "mod machine;\nmod state;\nmod voice;\n",
        "machine.rs": "use crate::{\n    state::tables::{Voice, Users as All},\n};\n",
        "voice.rs": "use crate::{machine::Guild, state::tables::Voice};\n",
        "state.rs": "pub mod tables;\n// crate::voice\n",
        "state/tables.rs": "use std::sync::Arc;\n",
    }

    def circle(self, **sources):
        changed = {path.replace("__", "/") + ".rs": text for path, text in sources.items()}
        return circles.circle(circles.graph(self.SOURCES | changed))

    def test_modules_that_lead_downwards_are_in_no_circle(self):
        self.assertEqual(self.circle(), set())
        self.assertEqual(circles.graph(self.SOURCES)["voice"], {"machine", "state"})

    def test_o1_a_module_that_leads_back_is_in_a_circle(self):
        self.assertEqual(self.circle(state__tables="use crate::voice::Rule;\n"), {"machine", "state", "voice"})
        self.assertEqual(self.circle(state__tables="fn f(guild: &crate::machine::Guild) {}\n"), {"machine", "state"})
        self.assertEqual(self.circle(state__tables="use super::super::machine::Guild;\n"), {"machine", "state"})

    def test_unit_tests_may_use_anything(self):
        self.assertEqual(self.circle(state__tables="#[cfg(test)]\nmod tests {\n    use crate::machine::Guild;\n}\n"), set())

    def test_the_tree_has_the_circles_of_the_table(self):
        self.assertEqual(circles.check(), [])


class Queues(unittest.TestCase):
    SOURCE = (
        "pub const LINES_MAX: usize = 16_384;\nconst ALL_MAX: usize = 4 * LINES_MAX;\nconst BYTES_MAX: u32 = 4 << 20;\n"
        "const OTHER: usize = f(3);\npub struct Options {\n    pub batches_max: usize,\n}\n"
        "        Self {\n            batches_max: 1024,\n            rest: x,\n        }\n"
    )

    def problems(self, *rows):
        text = "\n".join(["# A", queues.HEADING, "", "| queue | bound | where | at it |", "|---|---|---|---|", *rows, "", "## B"])
        read = {"net/src/a.rs": self.SOURCE}.get
        return [f"{number}: {problem}" for number, problem in queues.problems(text, lambda file: read(file, ""))]

    def test_q2_bounds_are_those_of_the_code(self):
        self.assertEqual(self.problems(
            "| 1. lines; all | 16,384; 65,536 | `LINES_MAX`, `ALL_MAX`, `net/src/a.rs` | dropped |",
            "| 2. bytes | 4 MiB | `x.bytes_max`: `BYTES_MAX`, `net/src/a.rs` | dropped |",
            "| 3. batches | 1,024 | `batches_max`, `net/src/a.rs`; PostgreSQL has the same | they wait |",
            "| 4. by subject | one each | `Conn` | 99 |",
        ), [])
        self.assertEqual(self.problems("| 1. lines | 16,385 | `LINES_MAX`, `net/src/a.rs` | |"), [
            "6: 1. lines: `LINES_MAX` of net/src/a.rs is 16384, and the table has 16385",
        ])

    def test_q1_each_number_has_its_name_and_each_name_a_value(self):
        self.assertEqual(len(self.problems("| 1. lines | 16,384, 5 | `LINES_MAX`, `net/src/a.rs` | |")), 1)
        for name, file in (("OTHER", "a.rs"), ("GONE_MAX", "a.rs"), ("LINES_MAX", "gone.rs"), ("rest", "a.rs")):
            self.assertIn("is None", self.problems(f"| 1. x | 3 | `{name}`, `net/src/{file}` | |")[0])
        self.assertIn("there is no", list(queues.problems("# A", str))[0][1])


class Documents(unittest.TestCase):
    def test_f1_text_beyond_the_column_is_reported(self):
        wide = "word " * 30
        text = f"{wide}\n| {wide}|\n```\n{wide}\n```\n  <img alt=\"{wide}\">\n- {wide}\n"
        self.assertEqual(list(documents.wide_lines(text)), [1, 7])
        generated = f"<!-- settings: made -->\n{wide}\n<!-- end of settings -->\n{wide}\n"
        self.assertEqual(list(documents.wide_lines(generated)), [4])

    def test_f2_an_entry_of_the_changelog_is_one_line(self):
        self.assertEqual(documents.long_entries("# Changelog\n\n- Added: one.\n- Added: two,\n  and more.\n"), [5])


class CitedTests(unittest.TestCase):
    def test_names_behind_the_word_and_names_of_rules_are_cited(self):
        header = "R1 holds. (tests `r1_*`, `scale`; `it::k2_*`) Not `Relay` or `handle_*`"
        self.assertEqual(tests.cited(header), ["r1_*", "scale", "it::k2_*"])
        self.assertEqual(tests.cited("| a window | `closing::c4001_*` |"), ["closing::c4001_*"])

    def test_a_test_of_two_rules_counts_for_both_and_a_missing_one_for_none(self):
        names = tests.defined([(pathlib.Path("a/scale.rs"), "#[test]\nfn b1_b3_once() {}\n    async fn late() {}\n")])
        for name in ["b1_*", "it::b3_*", "scale", "late"]:
            self.assertTrue(tests.exists(name, names), name)
        for name in ["b2_*", "b1_b2_*", "lat"]:
            self.assertFalse(tests.exists(name, names), name)


class Changes(unittest.TestCase):
    def test_files_and_their_crates(self):
        graph = crates.Graph([package("relay"), package("api", ("relay", None))])
        changed = program("check").changed_crates
        self.assertEqual(changed({"crates/relay/src/lib.rs", "docs/x.md", "crates/api/README.md"}, graph), {"relay"})
        self.assertEqual(changed({"Cargo.lock"}, graph), {"relay", "api"})


class Complaints(unittest.TestCase):
    """How the conformance suite judges complaints of libraries (conformance/harness/client.py)."""

    def test_only_a_cut_and_the_end_explain_complaints(self):
        sys.path.insert(0, str(ROOT / "conformance"))
        from harness.client import unexplained

        def problem(detail):
            return {"ev": "problem", "what": "log", "detail": detail}

        reset, late, gap = problem("ECONNRESET"), problem(
            "Was unable to schedule next packet due to rejected execution by threadpool\nRejectedExecutionException"
        ), problem("Sequence off; them: 9, us: 7")
        events = [reset, {"ev": "ready"}, gap, reset, late]
        self.assertEqual(list(unexplained(events, 2, quit_at=4)), [])
        self.assertEqual(list(unexplained(events, 1, quit_at=4)), [reset])
        self.assertEqual(list(unexplained(events, 2, quit_at=5)), [late])
        self.assertEqual(list(unexplained(events, 2)), [late])
        self.assertEqual(list(unexplained([reset], 0, quit_at=0)), [reset])


class Stages(unittest.TestCase):
    def run_stages(self, *rows, keep_going=False):
        made = [stages.Stage(name, ["sh", "-c", script], lane, needs) for name, lane, needs, script in rows]
        with tempfile.TemporaryDirectory() as folder:
            runner = stages.Runner(made, pathlib.Path(folder), keep_going, write=lambda _: None)
            has_passed = runner.run()
            self.last_lines = {stage.name: stage.last_lines for stage in made}
            return has_passed, {stage.name: stage.result for stage in made}, runner.table()

    def test_o1_what_is_needed_comes_first(self):
        with tempfile.TemporaryDirectory() as folder:
            has_passed, _, table = self.run_stages(
                ("suite", "run", ("build",), f"cat {folder}/x"), ("build", "build", (), f"echo made > {folder}/x")
            )
        self.assertTrue(has_passed)
        self.assertRegex(table, r"suite +passed .* made")

    def test_o5_after_a_failure_nothing_starts(self):
        rows = (
            ("bad", "build", (), "exit 3"),
            ("after", "build", ("bad",), "true"),
            ("later", "run", ("after",), "true"),
            ("free", "build", (), "true"),
        )
        has_passed, results, _ = self.run_stages(*rows)
        self.assertFalse(has_passed)
        self.assertEqual(results, {"bad": "FAILED", "after": "not run", "later": "not run", "free": "not run"})
        _, results, table = self.run_stages(*rows, keep_going=True)
        self.assertEqual(results, {"bad": "FAILED", "after": "not run", "later": "not run", "free": "passed"})
        self.assertIn("left out", table)

    def test_a_failure_is_shown_by_what_the_stage_said_and_not_by_what_make_says(self):
        make = "make[1]: *** [Makefile:1: x] Error 1"
        _, _, table = self.run_stages(("bad", "build", (), f"echo the reason; echo; echo '{make}'; exit 2"))
        self.assertRegex(table, r"bad +FAILED .* the reason")
        self.assertEqual(self.last_lines, {"bad": ["the reason"]})

    def test_o6_a_lane_has_places(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            rows = [(name, "wait", (), f"echo + >> {log}; sleep 0.2; echo - >> {log}") for name in "abcd"]
            has_passed, _, _ = self.run_stages(*rows)
            self.assertTrue(has_passed)
            at_a_time = list(itertools.accumulate(1 if mark == "+" else -1 for mark in log.read_text().split()))
            self.assertEqual(max(at_a_time), stages.PLACES["wait"])

    def test_the_table_is_also_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            runner = stages.Runner([stages.Stage("s", ["true"], "run")], path, write=lambda _: None)
            runner.run()
            runner.write_table(path / "table.json", slowness=1.5)
            table = json.loads((path / "table.json").read_text())
        self.assertEqual([(row["name"], row["result"]) for row in table["stages"]], [("s", "passed")])
        self.assertEqual(table["total"]["slowness"], 1.5)

    def test_o4_an_interrupt_ends_the_stages(self):
        script = "import sys; from house import stages; import pathlib\n" \
            "runner = stages.Runner([stages.Stage('s', ['sh', '-c', 'echo $$ > {0}/pid; sleep 60; true'], 'run')], pathlib.Path('{0}'))\n" \
            "runner.run(); print(runner.table())"
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            run = subprocess.Popen(
                [sys.executable, "-c", script.format(folder)], cwd=ROOT / "tools", stdout=subprocess.PIPE, text=True
            )
            deadline = time.monotonic() + 20
            while not (pid.exists() and pid.read_text().strip()):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            run.terminate()
            output, _ = run.communicate(timeout=30)
            self.assertRegex(output, r"s +FAILED")
            # A process that has ended stays in its group until its parent has noticed; `Z` is not alive.
            group = pid.read_text().strip()
            while True:
                listed = subprocess.run(["ps", "-eo", "pgid=,stat="], check=True, capture_output=True, text=True).stdout
                rows = [line.split() for line in listed.splitlines()]
                if not any(row[0] == group and not row[1].startswith("Z") for row in rows):
                    break
                self.assertLess(time.monotonic(), deadline + 20)
                time.sleep(0.02)

    def test_o4_an_interrupt_while_a_stage_starts_ends_it(self):
        class Interrupted(dict):
            def __setitem__(self, stage, process):
                os.kill(os.getpid(), signal.SIGTERM)
                super().__setitem__(stage, process)

        with tempfile.TemporaryDirectory() as folder:
            stage = stages.Stage("s", ["sleep", "5"], "run")
            runner = stages.Runner([stage], pathlib.Path(folder), write=lambda _: None)
            runner._running = Interrupted()
            self.assertFalse(runner.run())
            self.assertEqual(stage.result, stages.FAILED)

    def test_o2_builds_are_alone_and_suites_are_not(self):
        with tempfile.TemporaryDirectory() as folder:
            # Each build fails if it finds another's mark; the two suites wait for each other's.
            build = f"mkdir {folder}/lock && sleep 0.1 && rmdir {folder}/lock"
            suite = "touch {0}/{1}; for i in $(seq 100); do [ -e {0}/{2} ] && exit 0; sleep 0.05; done; exit 1"
            has_passed, results, _ = self.run_stages(
                ("a", "build", (), build),
                ("b", "build", (), build),
                ("x", "run", ("a", "b"), suite.format(folder, "x", "y")),
                ("y", "wait", ("a", "b"), suite.format(folder, "y", "x")),
            )
        self.assertTrue(has_passed, results)


class UnitTests(unittest.TestCase):
    SCRIPT = "echo 'test slow has been running for over 60 seconds'; {}; echo 'test slow ... ok'; echo 'test result: ok. 1 passed;'"

    def run_program(self, script):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tests"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            unit = program("unit")
            unit.TEST_SECONDS_MAX = unit.REPORTED_AFTER_SECONDS + 1
            with contextlib.redirect_stdout(io.StringIO()) as output:
                _, failures, _, _ = unit.run_one(("x/test/it", pathlib.Path(folder), path))
        return failures, output.getvalue()

    def test_a_failed_test_is_named_with_its_panic(self):
        panic = "thread 'wrong' (7) panicked at a.rs:1:2:\nfour is not five"
        failures, _ = self.run_program(f'echo "{panic}"; echo "test wrong ... FAILED"; exit 101')
        self.assertEqual(failures, ["x/test/it wrong: a.rs:1:2: four is not five"])

    def test_a_test_that_waits_for_ever_is_named_and_ended(self):
        failures, output = self.run_program(self.SCRIPT.format("exec sleep 60"))
        self.assertEqual(failures, ["x/test/it: slow did not end within 61 s"])
        self.assertIn("x/test/it: slow did not end within 61 s", output)

    def test_a_slow_test_that_ends_is_reported_only(self):
        failures, output = self.run_program(self.SCRIPT.format("sleep 0.1"))
        self.assertEqual(failures, [])
        self.assertIn("slow still runs after 60 s", output)

    def test_rustdoc_gets_the_arguments_of_the_compiler_without_those_of_its_output(self):
        arguments = ["--crate-name", "a", "--emit=link", "--out-dir", "deps", "--error-format=json", "--extern", "b=b.rmeta"]
        wanted = ["--crate-name", "a", "--extern", "b=b.rmeta"]
        self.assertEqual(program("doc").rustdoc_arguments(arguments), wanted)


if __name__ == "__main__":
    unittest.main()
