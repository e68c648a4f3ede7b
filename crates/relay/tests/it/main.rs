//! Relays: recipients, compared with an independent algorithm; and the stream from the guild.

mod audience;
mod audience_rules;
mod fixture;
mod passive;
mod passive_client;
mod passive_world;
mod replay;
mod stream;
mod visibility;
