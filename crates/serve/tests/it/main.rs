//! The server as its clients see it: a process of its own, asked over the network.

mod support;

mod access;
mod answers;
mod growth;
mod limits;
mod load;
mod metadata;
mod prepared;
mod stopping;
