//! What publishing and fetching come to, on stores in memory and with faults.

mod fetching;
mod gc;
mod publishing;
mod races;
mod support;
