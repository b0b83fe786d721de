//! An environment that a service holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steplake::Error;
use steplake::env::{Environment, RemoteService, Session, SessionError};
use steplake::model::EnvironmentSpec;
use steplake::record::{SpaceChoice, identity};

use super::address::ServiceAddress;
use super::connection::{Connection, Silence};
use super::service::SharedService;
use super::session::ServiceSession;
use super::spaces::{EnvironmentDescription, described};

/// Opens the environment of the service at an address.
///
/// # Errors
///
/// If the service cannot be reached, or no lake can hold its environment.
pub(crate) fn open(address: &str) -> Result<Box<dyn Environment>, Error> {
    let address = ServiceAddress::parse(address)?;
    let connection = Connection::open(&address.authority, address.is_encrypted)?;
    let served = RemoteService::default();
    let opened = connection.described(&served);
    let wrong = |problem: &str| {
        Error::usage(format!("the service at {} cannot be recorded: {problem}", address.authority))
    };
    let opened = opened.map_err(|silence| {
        let problem = match silence {
            Silence::Status(status) => status.message().to_owned(),
            Silence::TooLong(longest) => format!("no answer within {} s", longest.as_secs()),
            Silence::Interrupted => "interrupted".to_owned(),
        };
        wrong(&format!("it does not describe itself: {problem}"))
    })?;
    let described = described(&address, &opened);
    let described = described.map_err(|problem| wrong(&problem))?;
    let EnvironmentDescription { spec, action_spaces, observation_spaces, left_out } = described;
    let first = spec.action_spaces.first();
    let first = first.ok_or_else(|| wrong("it has no action space"))?;
    identity(&spec, first, &SpaceChoice::default()).map_err(|error| wrong(&error.to_string()))?;
    let served = RemoteService::new(left_out);
    let repeated = AtomicU64::new(0);
    Ok(Box::new(ServiceEnvironment(Arc::new(SharedService {
        connection,
        opened,
        spec,
        action_spaces,
        observation_spaces,
        served,
        repeated,
    }))))
}

#[derive(Debug)]
struct ServiceEnvironment(Arc<SharedService>);

impl Environment for ServiceEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.0.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(ServiceSession::new(Arc::clone(&self.0))))
    }

    fn repeated_windows(&self) -> u64 {
        self.0.repeated.load(Ordering::Relaxed)
    }

    fn served(&self) -> Option<&RemoteService> {
        Some(&self.0.served)
    }
}
