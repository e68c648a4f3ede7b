"""The rules of `tools/tidy`, a module each, and modules that several programs of tools/ share: `stages`, `comments`, `crates`."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
