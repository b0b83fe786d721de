//! The explorer: a page about a lake and about live sessions, and the REST interface under it.
//!
//! ```text
//!  browser ── access ─┬─ assets: the page
//!                     ├─ peer, live: sessions as trees ── programs ── parking ── workers
//!                     └─ lake: questions ── queries ── newest
//! ```
//!
//! The modules are listed in the order in which a request passes through them. Threads that talk to
//! clients compute nothing: compilers and texts are left to threads that may wait, and questions to
//! the threads of queries.

pub(crate) mod arguments;
pub(crate) mod server;
mod browser;

// Requests and answers.
mod access;
mod answers;
mod assets;
mod describe;

// Live sessions.
mod live;
mod peer;
mod programs;
mod sessions;
mod tree;

// Programs as text.
mod code;

// Questions to the lake.
mod lake;
