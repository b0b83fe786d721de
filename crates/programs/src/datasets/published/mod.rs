//! The datasets of CompilerGym that lie on the web as archives, under their old URIs.
//!
//! `data/published/datasets.json` says where each archive and the list of its programs lie, with
//! their SHA-256: nothing else is accepted. A program is downloaded with the others of its archive
//! at its first use. Bitcode is taken as it is; sources are compiled by clang 22, so their bitcode
//! is not that of clang 10. Their build and run commands are not part of these datasets here.

mod dataset;
mod definition;
mod fetch;
#[cfg(test)]
mod tests;
mod unpack;

pub(super) use self::dataset::PublishedDataset;
