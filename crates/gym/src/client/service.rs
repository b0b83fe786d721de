//! A service, as the sessions of its environment know it.

use std::sync::atomic::AtomicU64;

use steplake::env::RemoteService;
use steplake::model::EnvironmentSpec;

use super::connection::{Connection, Description};

/// What the sessions share.
#[derive(Debug)]
pub(super) struct SharedService {
    pub(super) connection: Connection,
    /// What the service said of itself when it was opened.
    pub(super) opened: Description,
    pub(super) spec: EnvironmentSpec,
    /// The places of the spaces at the service.
    pub(super) action_spaces: Vec<i32>,
    pub(super) observation_spaces: Vec<i32>,
    pub(super) served: RemoteService,
    /// How many failures a fresh session did not have.
    pub(super) repeated: AtomicU64,
}
