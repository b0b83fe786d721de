//! The library and the binary as a user meets them.

mod datasets;
