//! The functions of the field, for use in SQL.
//!
//! | function | gives |
//! |---|---|
//! | `state('<40 hex digits>')` | a state id |
//! | `hex(bytes)` | lower-case hexadecimal digits |
//! | `ir(state_id)` | the IR of a state as text, rebuilt where it is not stored; null where none is kept |
//! | `ir_diff(before, after)` | what differs between the IR of two states, as a unified diff |
//! | `feature(vector, 'name')` | one number of an observation vector, by its name |
//! | `feature_delta(before, after)` | the numbers that differ between two vectors: a list of feature, before and after |
//! | `action_name(action)` | the name of an action |
//! | `commandline(actions)` | one action or a list as a command line |
//! | `action_list(step_index, action)` | aggregate: the actions of an episode in order |
//! | `arg_min(value, by)`, `arg_max(value, by)` | aggregates: the value where `by` is least or greatest |
//! | `mode(value)` | aggregate: the most frequent value |
//! | `action_prefix(actions, length)` | the first actions of a list |
//! | `sample_median(samples)` | the median of a list of samples |
//! | `median_interval(samples, confidence)` | a confidence interval of the median: a list of its two ends |
//! | `speedup(before, after)` | how many times as fast the samples after are |
//! | `speedup_interval(before, after, confidence)` | a confidence interval of the speed-up |

mod action_list;
mod actions;
mod arguments;
mod extremes;
mod feature;
mod feature_delta;
mod ir;
mod ir_diff;
mod listed;
mod memory;
mod mode;
mod registry;
mod samples;
mod states;

pub(super) use self::ir::IrSource;
pub(super) use self::listed::{DESCRIPTIONS, list, of_the_field};
pub use self::listed::{Function, FunctionKind};
pub(super) use self::memory::{FunctionMemory, Planning};
pub(super) use self::registry::{ContextIdentity, reads_large_values, register};
pub use self::registry::{FieldFunctions, identity_of};
pub use self::samples::{speedup, speedup_interval};
