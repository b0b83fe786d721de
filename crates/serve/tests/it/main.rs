//! The server as its clients see it: a separate process, asked over the network.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod cache_server;
mod explorer;
mod gym_server;
mod support;

#[path = "../../../../tests/it/fixtures/programs.rs"]
mod programs;

mod access;
mod answers;
mod cache;
mod cache_killed;
mod client;
mod explorer_access;
mod explorer_lake;
mod explorer_sessions;
mod growth;
mod hostile;
mod limits;
mod load;
mod metadata;
mod prepared;
mod refusals;
mod sessions;
mod stopping;
