//! Publishes lakes to object stores and fetches them from there.

fn main() {}
