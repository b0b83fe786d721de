//! Environments by the address of the service that holds them: `grpc://HOST:PORT`.
//!
//! The library does not speak the protocol. A program that does says how such an environment is
//! opened.

use std::num::NonZeroU32;

use crate::Error;
use crate::env::Environment;
use crate::model::Remedy;

/// Opens the environment at an address.
pub type Open = fn(&str) -> Result<Box<dyn Environment>, Error>;

/// Returns whether the name of an environment is the address of a service.
pub fn is_address(name: &str) -> bool {
    name.starts_with("grpc://") || name.starts_with("grpc+tls://")
}

/// Opens the environment at an address, with `open` if this program has it.
///
/// # Errors
///
/// If this program cannot, or the service has none that can be used.
pub(super) fn open(open: Option<Open>, address: &str) -> Result<Box<dyn Environment>, Error> {
    let open = open.ok_or_else(|| {
        Error::usage(format!(
            "{address} is a service, which this program cannot talk to: the command line can"
        ))
    })?;
    open(address)
}

/// Refuses what cannot be recorded from a service, with the reason; accepts everything of other
/// environments.
pub(crate) fn demand_recordable(
    environment: &dyn Environment,
    keyframes: Option<NonZeroU32>,
    spaces: &[Option<&[String]>],
) -> Result<(), Error> {
    let Some(served) = environment.served() else { return Ok(()) };
    if keyframes.is_some_and(|every| every > NonZeroU32::MIN) {
        let said = "states of a service's compiler cannot be rebuilt: store all of them, or none";
        return Err(Error::usage(said).with(Remedy::Field("keyframes")));
    }
    let mut wanted = spaces.iter().flatten().copied().flatten();
    let refused = wanted.find_map(|wanted| {
        served.left_out().iter().find(|(name, _)| name.as_ref() == wanted.as_str())
    });
    match refused {
        Some((name, reason)) => Err(Error::usage(format!("`{name}` cannot be recorded: {reason}"))),
        None => Ok(()),
    }
}
