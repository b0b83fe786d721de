//! stub
pub(crate) fn run() {}
pub(crate) fn run_peer() {}
