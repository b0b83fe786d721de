//! Lakes on object stores: what `steplake publish` and `steplake fetch` do.
//!
//! ```text
//! s3://bucket/prefix/
//!   manifests/00000000000000000007.json       a version: the name of its list. A conditional put
//!   lists/<BLAKE3>.json                       the contents: files, and rows of the catalog
//!   segments/<table>/<BLAKE3>-<name>.parquet  the files. <name> is the publication's random name
//!   segments/<table>/_delta_log/              the log of a Delta table, for other tools
//! ```
//!
//! # What is durable when
//!
//! Everything that a version names is there before the version: first the segments, then the list,
//! then the manifest. The store acknowledges each before the next begins. So a version is there
//! completely or not at all. A publication that is killed at any moment leaves objects that no
//! version names, and nothing else. The Delta logs follow the version: see `delta_log.rs`.
//!
//! # What a reader sees
//!
//! Objects are named by their content and by their sender, and never change. A version never
//! changes until it is forgotten; a fetch that is running then reports that.
//!
//! # Two publishers
//!
//! Both read the newest version N and make N+1. The store accepts one of them. The other starts
//! again with the version that is newest then: it finds that this version has everything in its
//! lake, or builds on it, or reports that each has something that the other lacks. Numbers are
//! never reused: a forgotten version leaves its manifest behind. [`gc`] also takes a number before
//! it deletes: a publication that is running then starts again, and uses nothing that may be
//! deleted.

#![forbid(unsafe_code)]

// Parameters of publications and fetches.
mod options;

// The location of a published lake: a store and a prefix; reads and writes its objects.
pub mod remote;

// The stored form of a version: the manifest and the list.
pub mod version;

// Compares the published version with the local lake.
pub mod relation;

// The object of each file of a version.
mod locate;

// Sends files.
mod send;

// Brings a lake into the form in which it is published.
mod prepare;

// The published tables as Delta tables.
mod delta_log;

// Sends what is missing, and makes a version of it.
pub mod publish;

// Makes a lake from a version.
pub mod fetch;

// Deletes old versions, and objects that no version names.
pub mod gc;

// The command line of the program.
pub mod cli;

mod error;

pub use error::RemoteError;
pub use options::{FetchOptions, PublishOptions};
