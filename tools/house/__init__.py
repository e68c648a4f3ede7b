"""Modules that the programs in tools/ share."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
