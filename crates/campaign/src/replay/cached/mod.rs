//! An environment without a compiler: steps are answered from the state transitions of a lake.
//!
//! [`CachedEnvironment::open`] reads the transition graph of one snapshot into memory, and its
//! sessions walk along the edges. A step costs a few microseconds at most, and a fork copies a
//! number. The graph can also be walked without a session: see [`RecordedGraph`].
//!
//! # What a session answers
//!
//! - States, failures and failed starts are those that were recorded. Of a conflict, the most
//!   frequent next state. If an action both failed and led to a state, the more frequent of the
//!   two.
//! - A reward is the difference of the recorded costs, divided by the scale of the episode's
//!   benchmark: bit for bit what the live session gives. The recorded reward of a transition is
//!   that of the first step that took it, perhaps in an episode of another program with another
//!   scale. It is taken only if the lake has no costs of the two states, or lacks a baseline.
//! - Observations are those that were recorded. The space that serialises states gives the stored
//!   IR. Without a compiler, IR that is not stored is an error: see [rebuild](super::rebuild).
//! - No time passes: `wall_time` is zero. Environments that end episodes by themselves are played
//!   on, since transitions do not tell.
//! - Steps that are not sealed or not deduplicated yet are not known, nor are retracted actions.
//!
//! The program of a start may be empty: the URI names it. Another program of the same name is
//! refused.
//!
//! # Spaces
//!
//! The spec is the live environment's, with the name [`NAME`] and the lake's compiler and action
//! space. Observation spaces that the lake cannot answer are left out, except with
//! [`MissingEdge::Live`]; the others keep their order, but get other numbers, so look them up by
//! name. A reward space stays if it was recorded, or if its costs and baselines were.
//!
//! # Live sessions
//!
//! With [`MissingEdge::Live`], a live session follows each cached session, as far behind as
//! possible. It is opened, started and brought to the present state when the lake has no answer, in
//! one batch of those actions that changed the state. The state that it reaches is compared with
//! the recorded one ([`SessionError::Diverged`](steplake_env::SessionError::Diverged)). A live
//! session may be a [`Recorder`](crate::record::Recorder). It then records all that the compiler
//! executed, replayed steps included, and nothing that the lake answered.
//!
//! **Do not wrap a cached session in a recorder**: the answers of the lake would count as further
//! steps.
//!
//! # Memory
//!
//! At most 28 bytes for each state and 12 for each transition. Spaces that are used take more:
//! see [`SpaceValues`]; rewards that have to be read, 8 bytes for each transition. The snapshot
//! stays open, so that other columns can be read later.

mod environment;
mod graph;
mod live;
mod observations;
mod recorded;
mod session;
mod spaces;

pub use environment::{CachedEnvironment, CachedOptions, Coverage};
pub use graph::{FailedAction, Recorded, RecordedGraph, StateEdge, StateNode, StateRow};
pub use live::{MissingEdge, SessionOpener};
pub use observations::SpaceValues;
pub use spaces::{NAME, recorded_spec};
