//! Asks a lake on a Ballista cluster.

fn main() {}
