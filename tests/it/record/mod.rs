//! Recording: what runs write, and what interruptions leave.

mod audits;
mod dying_compilers;
mod failed_starts;
mod heaps;
mod keyframes;
mod kill;
mod lost_episodes;
mod on_request;
mod own_environment;
pub(crate) mod recorder;
mod resume;
mod searches;
mod shards;
pub(crate) mod windows;
