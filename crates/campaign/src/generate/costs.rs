//! What states cost, as a session observes it.

use steplake_env::{Session, SessionError};
use steplake_model::{EnvironmentSpec, ObservationIndex, Value, as_f64};

/// Returns what the present state of a session costs; infinity if that is not known.
pub(super) fn cost(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    objective: &str,
) -> Result<f64, SessionError> {
    Ok(number(session, space_called(spec, objective)?)?.unwrap_or(f64::INFINITY))
}

/// Returns the observation space of a name.
pub(super) fn space_called(
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<ObservationIndex, SessionError> {
    spec.observation_index(name).ok_or_else(|| SessionError::UnknownSpace {
        name: name.to_owned(),
        environment: spec.name.to_string(),
    })
}

/// Observes a number; none if it has no value there.
pub(super) fn number(
    session: &mut dyn Session,
    space: ObservationIndex,
) -> Result<Option<f64>, SessionError> {
    match session.observe(space) {
        Ok(Value::Int(number)) => Ok(Some(as_f64(number))),
        Ok(Value::Float(number)) => Ok(Some(number).filter(|number| !number.is_nan())),
        Ok(_) | Err(SessionError::Unobservable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
