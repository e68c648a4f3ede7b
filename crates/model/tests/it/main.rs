//! Bodies for user accounts in both encodings, compared with the examples of docs/protocol/reference.md.

mod channel;
mod guild;
mod member_list;
mod message;
mod passive;
mod ready;
mod replies;
mod sessions;
mod support;
