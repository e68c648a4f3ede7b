//! Tests of the real binary: processes, signals, files, HTTP.

mod backend;
mod cli;
mod demo;
mod dictionary;
mod kill;
mod support;
mod surface;
mod town;
