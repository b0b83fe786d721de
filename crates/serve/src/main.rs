//! Serves a lake to Arrow clients.

fn main() {}
