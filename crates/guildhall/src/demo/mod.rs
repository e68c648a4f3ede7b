#[allow(dead_code)]
mod chat;
#[allow(dead_code)]
mod names;
#[allow(dead_code)]
mod plan;
#[allow(dead_code)]
mod text;
