//! One cache of state transitions for many clients: sessions are answered from a lake, and a
//! compiler is asked only for what the lake does not know.
//!
//! ```text
//!  client ── CacheSession ──┬─ Transitions: the lake's, and those recorded since   (a hit)
//!                           └─ InFlight ── Follower ── compiler ── lake            (a miss)
//! ```
//!
//! # What is known
//!
//! When a cache opens, it seals and deduplicates the lake, and reads the transition graph. So it
//! knows all steps of closed episodes, whoever recorded them. It adds what it records to a table in
//! memory. One right to write protects the lake, so nobody else records into it meanwhile.
//!
//! # What is durable when
//!
//! A miss is one step of a compiler. Its rows are one transaction of the hot log: a closed episode
//! of one action, with the observations and the IR of the state if that is new. First the
//! transaction is durable, then sessions of others can find the answer, then the client gets it. So
//! after a kill at any moment
//!
//! - every answer that a client got is in the lake;
//! - a step that was recorded and not answered is in the lake too, and the next one who asks hits;
//! - a step that was not recorded is not there at all, and the next one who asks misses.
//!
//! Starts of benchmarks are kept in the same way.
//!
//! # Recorded once
//!
//! A miss holds its (state, action) in [`InFlight`](in_flight::InFlight) until its answer can be
//! found. Others who miss the same pair wait, and then hit. The steps that bring a compiler to the
//! state are not recorded. So each miss is one row of `steps` with an action, and dedup counts a
//! transition that only this cache recorded as one.
//!
//! # How a compiler comes to a state
//!
//! Each session has a compiler of its own, as far behind as it can be ([`Follower`](follower)): it
//! starts the benchmark and plays those actions that changed the state. Compilers of idle sessions
//! are given up, see [`ParkingEnvironment`](steplake_server::ParkingEnvironment). A client who has
//! only a state id has no actions: a shortest recorded path from the start of the benchmark is
//! taken. If the actions lead elsewhere this time, since one of them depends on more than the
//! state, the compiler starts in the stored IR of the state.

mod counters;
mod episode;
mod follower;
mod http;
mod in_flight;
mod ir_file;
mod session;
mod shared;
mod transitions;

pub(crate) use self::http::serve;
pub(crate) use self::session::open;
pub(crate) use self::shared::Cache;
