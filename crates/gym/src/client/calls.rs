//! What sessions ask of a service, and what they take down of its answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use steplake::env::SessionError;
use steplake::lake::bitcode_sha1;
use steplake::model::{ActionIndex, ObservationIndex, StateId, Value};
use tonic::Code;

use super::connection::CallKind;
use super::program::ServiceProgram;
use super::service::SharedService;
use super::trouble::{Trouble, of_start};
use super::values::{cost, value};
use crate::proto::{EndSessionRequest, Event, StartSessionRequest, StepReply, StepRequest, event};

/// How often a lost session is brought back for one call.
const ATTEMPTS_MAX: u32 = 4;

/// The time before the second attempt. Each further one waits twice as long.
const WAIT: Duration = Duration::from_millis(200);

/// A state, with what was looked at, by observation space.
#[derive(Clone)]
pub(super) struct ObservedState {
    pub(super) id: StateId,
    pub(super) observed: Vec<Option<Value>>,
}

impl SharedService {
    /// Ends a session. Nothing depends on it but the memory of the service.
    pub(super) fn end(&self, session_id: i64) {
        self.connection
            .tell(async |mut client| client.end_session(EndSessionRequest { session_id }).await);
    }

    /// The spaces without which there is no step: the state, and all costs.
    pub(super) fn needed(&self) -> Vec<ObservationIndex> {
        let costs = self.spec.reward_spaces.iter();
        let costs = costs.filter_map(|space| self.spec.observation_index(&space.cost));
        let mut needed = vec![self.spec.state_index()];
        for cost in costs {
            if !needed.contains(&cost) {
                needed.push(cost);
            }
        }
        needed
    }

    fn places(&self, spaces: &[ObservationIndex]) -> Vec<i32> {
        spaces.iter().map(|space| self.observation_spaces[usize::from(space.0)]).collect()
    }

    /// Makes sure that the service is still the one that was opened: one that was started anew may
    /// be another build, whose states are others.
    fn demand_same(&self) -> Result<(), Trouble> {
        let now = self.connection.described(&self.served);
        let now = now.map_err(|silence| Trouble::from(silence).of_machine())?;
        if now == self.opened {
            return Ok(());
        }
        Err(Trouble::wrong(
            "it is another service than at first: what GetVersion or GetSpaces answer has changed",
        ))
    }

    /// Starts a session, and looks at its first state.
    pub(super) fn begin(
        &self,
        program: &ServiceProgram,
        space: usize,
    ) -> Result<(i64, ObservedState), Trouble> {
        let needed = self.needed();
        let request = StartSessionRequest {
            benchmark: Some(program.named()),
            action_space: self.action_spaces[space],
            observation_space: self.places(&needed),
        };
        let begin = || {
            let begun = self.connection.call(&self.served, CallKind::Start, async |mut client| {
                client.start_session(request.clone()).await
            });
            begun.map_err(of_start)
        };
        self.demand_same()?;
        let reply = match begin() {
            Err(Trouble::Refused(Code::NotFound, unknown)) => {
                self.add(program, unknown)?;
                begin()?
            }
            reply => reply?,
        };
        if reply.new_action_space.is_some() {
            self.end(reply.session_id);
            return Err(Trouble::wrong("the program has an action space of its own"));
        }
        let state = self.state(&needed, reply.observation);
        let state = state.inspect_err(|_| self.end(reply.session_id))?;
        Ok((reply.session_id, state))
    }

    /// Adds a program that is `unknown` to the service.
    fn add(&self, program: &ServiceProgram, unknown: String) -> Result<(), Trouble> {
        let added = program.sent();
        let added = self.connection.call(&self.served, CallKind::Start, async |mut client| {
            client.add_benchmark(added).await
        });
        match added.map_err(Trouble::from) {
            Ok(_) => Ok(()),
            // It has no program of that name.
            Err(Trouble::Refused(..) | Trouble::Failed(_)) if !program.is_ours() => {
                Err(Trouble::Refused(Code::NotFound, unknown))
            }
            Err(trouble) => Err(trouble.of_machine()),
        }
    }

    /// Applies actions, and looks at the state after them.
    pub(super) fn step(
        &self,
        session_id: i64,
        actions: &[ActionIndex],
        spaces: &[ObservationIndex],
        work: CallKind,
    ) -> Result<StepReply, Trouble> {
        let action = |action: &ActionIndex| Event {
            optional_type_id: None,
            value: Some(event::Value::Int64Value(action.0.into())),
        };
        let request = StepRequest {
            session_id,
            action: actions.iter().map(action).collect(),
            observation_space: self.places(spaces),
        };
        let reply = self
            .connection
            .call(&self.served, work, async |mut client| client.step(request).await)?;
        if reply.new_action_space.is_some() {
            return Err(Trouble::wrong(
                "an action changed the action space, and a lake has one for all steps",
            ));
        }
        Ok(reply)
    }

    /// Takes down what a service sent of a state.
    pub(super) fn state(
        &self,
        spaces: &[ObservationIndex],
        events: Vec<Event>,
    ) -> Result<ObservedState, Trouble> {
        let mut observed = vec![None; self.spec.observation_spaces.len()];
        self.take_down(&mut observed, spaces, events)?;
        let state = &observed[usize::from(self.spec.state_index().0)];
        let Some(Value::Bytes(bytes)) = state else {
            return Err(Trouble::wrong("a state has no observation that tells it apart"));
        };
        Ok(ObservedState { id: StateId(bitcode_sha1(bytes)), observed })
    }

    pub(super) fn take_down(
        &self,
        observed: &mut [Option<Value>],
        spaces: &[ObservationIndex],
        events: Vec<Event>,
    ) -> Result<(), Trouble> {
        if events.len() != spaces.len() {
            return Err(Trouble::wrong(&format!(
                "{} observations were asked for, and {} came",
                spaces.len(),
                events.len()
            )));
        }
        for (index, event) in spaces.iter().zip(events) {
            let at = usize::from(index.0);
            let space = &self.spec.observation_spaces[at];
            let found = value(event, space.value_type);
            observed[at] = Some(found.ok_or_else(|| {
                Trouble::wrong(&format!("an observation in `{}` has another type", space.name))
            })?);
        }
        Ok(())
    }

    /// What a state costs, by the names of the observation spaces that are costs.
    pub(super) fn costs(&self, state: &ObservedState) -> Result<Vec<(String, f64)>, SessionError> {
        let costs = self.spec.reward_spaces.iter().map(|space| {
            let name = space.cost.as_ref();
            let index = self.spec.observation_index(name);
            let seen = index.and_then(|index| state.observed[usize::from(index.0)].as_ref());
            let cost = seen.and_then(cost).ok_or_else(|| {
                SessionError::Broken(format!(
                    "the cost `{name}` is {seen:?} in some state: a cost has to be finite, and an \
                     integer at most 2^53; ?costs=SPACE,SPACE after the address names other costs"
                ))
            })?;
            Ok((name.to_owned(), cost))
        });
        costs.collect()
    }

    /// Calls `work` until it neither fails nor loses its session by bad luck. `work` opens a fresh
    /// session if it has none. A failure is returned if it happened twice in a row.
    pub(super) fn persist<T>(
        &self,
        mut work: impl FnMut() -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let (mut has_failed, mut lost) = (false, 0);
        loop {
            match work() {
                Err(Trouble::Failed(failure)) if !has_failed => {
                    tracing::debug!(detail = failure.detail, "a failure, which is tried again");
                    has_failed = true;
                }
                Err(Trouble::Lost(detail)) => {
                    lost += 1;
                    if lost == ATTEMPTS_MAX {
                        return Err(Trouble::Lost(detail));
                    }
                    std::thread::sleep(WAIT * (1 << (lost - 1)));
                }
                Ok(done) => {
                    if has_failed {
                        self.repeated.fetch_add(1, Ordering::Relaxed);
                    }
                    return Ok(done);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }
}
