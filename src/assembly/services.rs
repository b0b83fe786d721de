//! Environments by the address of the service that holds them: `grpc://HOST:PORT`.
//!
//! The library does not speak the protocol. A program that does says how such an environment is
//! opened.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use super::command_error::CommandError;
use crate::env::Environment;

/// Opens the environment at an address.
pub type Open = fn(&str) -> Result<Box<dyn Environment>, CommandError>;

/// How this program opens such environments, if it can.
static OPEN: OnceLock<Open> = OnceLock::new();

/// Says how this program opens the environments of services. Only the first call counts.
pub fn set_open(open: Open) {
    let _ = OPEN.set(open);
}

/// Returns whether this program can open the environments of services.
pub(crate) fn can_open() -> bool {
    OPEN.get().is_some()
}

/// Returns whether the name of an environment is the address of a service.
pub fn is_address(name: &str) -> bool {
    name.starts_with("grpc://")
}

/// Opens the environment at an address.
///
/// # Errors
///
/// If this program cannot, or the service has none that can be used.
pub(super) fn open(address: &str) -> Result<Box<dyn Environment>, CommandError> {
    let open = OPEN.get().ok_or_else(|| {
        CommandError::usage(format!(
            "{address} is a service, which this program cannot talk to: the command line can, \
             with `steplake generate --env {address}`"
        ))
    })?;
    open(address)
}

/// Refuses what cannot be recorded from a service, with the reason; accepts everything of other
/// environments.
pub(super) fn demand_recordable(
    environment: &dyn Environment,
    keyframes: Option<NonZeroU32>,
    spaces: &[Option<&[String]>],
) -> Result<(), CommandError> {
    let Some(served) = environment.served() else { return Ok(()) };
    if keyframes.is_some_and(|every| every > NonZeroU32::MIN) {
        return Err(CommandError::usage(
            "states of a service's compiler cannot be rebuilt: store all of them, with `--ir all`, \
             or none, with `--ir none`",
        ));
    }
    let mut wanted = spaces.iter().flatten().copied().flatten();
    let refused = wanted.find_map(|wanted| {
        served.left_out().iter().find(|(name, _)| name.as_ref() == wanted.as_str())
    });
    match refused {
        Some((name, reason)) => {
            Err(CommandError::usage(format!("`{name}` cannot be recorded: {reason}")))
        }
        None => Ok(()),
    }
}
