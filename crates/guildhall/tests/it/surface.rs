//! The Discord-compatible surface over real sockets, a file per subject.

mod announcements;
mod audit;
mod auto_moderation;
mod bans;
mod community;
mod directs;
mod doors;
mod expressions;
mod fields;
mod interactions;
mod invites;
mod matrix;
mod permissions;
mod pins;
mod polls;
mod reading;
mod relationships;
mod routes;
mod threads;
mod uploads;
mod voice;
mod webhooks;
