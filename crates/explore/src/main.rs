//! The explorer: a page about a lake and about live sessions, and the REST interface under it:
//! `steplake explore`.
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

#![forbid(unsafe_code)]

mod arguments;
mod server;
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

use std::process::ExitCode;

use clap::Parser as _;
use steplake_terminal::exit::exit_code;

fn main() -> ExitCode {
    // Compilers live in processes of this program, executed again.
    if let Some(code) = steplake::compilers::serve_if_worker() {
        return code;
    }
    let arguments = arguments::ExploreArguments::parse();
    steplake_server::begin(arguments.global.verbose, "steplake_explore");
    exit_code(server::run(&arguments))
}
