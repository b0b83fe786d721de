//! Environments whose sessions a service holds, which somebody else runs.

use std::sync::OnceLock;

use super::worker::WorkerConfig;
use steplake_model::Name;

/// What is particular about an environment that a service holds: steplake cannot compute its states
/// again, and some of its spaces may be nothing that a lake can hold.
#[derive(Debug, Default)]
pub struct RemoteService {
    left_out: Vec<(Name, String)>,
    limits: OnceLock<WorkerConfig>,
}

impl RemoteService {
    /// Describes an environment. `left_out` are the spaces that its service has beside those of the
    /// specification, each with the reason, as half a sentence.
    pub fn new(left_out: Vec<(Name, String)>) -> Self {
        Self { left_out, limits: OnceLock::new() }
    }

    /// The spaces of the service that the environment does not have, each with the reason.
    pub fn left_out(&self) -> &[(Name, String)] {
        &self.left_out
    }

    /// Limits the wall time of steps and starts to those of workers with this configuration, and
    /// has its interrupt end the calls that wait. Only the first call counts.
    pub fn limit(&self, config: WorkerConfig) {
        let _ = self.limits.set(config);
    }

    /// The limits, if they were set.
    pub fn limits(&self) -> Option<&WorkerConfig> {
        self.limits.get()
    }
}
