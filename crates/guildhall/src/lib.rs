#![deny(unsafe_code)]
#[allow(dead_code)]
pub mod config;
pub mod demo;
