//! Environments and action spaces by name, and the limits of worker processes.
//!
//! [`Environments`] says what a program can open, and which program its workers execute. Requests
//! of the library take it from whoever makes them.

pub mod catalogue;
pub mod imports;
mod limits;
mod opening;
pub mod services;

pub use self::limits::{
    STEP_CPU_SECONDS, STEP_CPU_SECONDS_MAX, WORKER_MEMORY_MIB, WORKER_MEMORY_MIB_MAX,
};
pub(crate) use self::limits::{demand_worker_limits, within};
pub use self::opening::{Environments, action_space, environment_of_lake, live};
