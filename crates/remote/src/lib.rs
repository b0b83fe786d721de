//! Lakes on object stores: what `steplake publish` and `steplake fetch` do.
//!
//! ```text
//! s3://bucket/prefix/
//!   manifests/00000000000000000007.json       a version: which list it is. Made by a conditional put, once
//!   lists/<BLAKE3>.json                       what a version holds: its files, and the catalog's rows
//!   segments/<table>/<BLAKE3>-<name>.parquet  the files. <name> is the random name of who sent it
//! ```
//!
//! # What is durable when
//!
//! Everything that a version names is there before the version is: segments first, then the list,
//! then the manifest, each acknowledged by the store before the next is begun. So a version is
//! there whole or not at all. Killed at any moment, a publication leaves objects that no version
//! names, and nothing else.
//!
//! # What a reader sees
//!
//! Objects are named by their content and by who sent them, and never changed. A version is what it
//! is until it is forgotten; whoever fetches it then is told so.
//!
//! # Two publishers
//!
//! Both read the newest version N and make N+1. The store lets one of them, and the other begins
//! again with what is newest then: it finds that nothing of its own is missing there, or goes on
//! from it, or is told that each has what the other lacks. Numbers are not given again: a forgotten
//! version leaves its manifest behind. [`gc`] takes a number too, before it deletes: a publication
//! that was under way begins again then, and counts on nothing that may go.

// Where a lake is published: a store and a prefix, and the reading and writing of its objects.
pub mod remote;

// What is written of a version: the manifest and the list.
pub mod version;

// How the version that is there compares with the lake at hand.
pub mod relation;

// Where each file of a version lies.
mod place;

// Sending files.
mod send;

// Sending what is missing, and making a version of it.
pub mod publish;

// A lake made after a version.
pub mod fetch;

// Letting go of old versions, and of objects that none names.
pub mod gc;

// The command line of the program.
pub mod cli;

mod error;

pub use error::RemoteError;
