//! Recording: what runs write, and what interruptions leave.

mod dying_compilers;
mod failed_starts;
mod keyframes;
mod kill;
mod lost_episodes;
mod on_request;
mod own_environment;
pub(crate) mod recorder;
mod resume;
mod searches;
mod shards;
mod unrolling;
pub(crate) mod windows;
