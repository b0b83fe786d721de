//! A session of a service.
//!
//! A failure counts once a fresh session has failed on the same action after the same actions, and
//! a session that is lost comes back as a fresh one: whatever happens to a service, what is
//! recorded is a function of the program and the actions.

use std::sync::Arc;
use std::time::Instant;

use steplake::env::{Session, SessionError, Start, Started, Watch};
use steplake::lake::bitcode_sha1;
use steplake::model::{
    ActionIndex, Baselines, EnvironmentSpec, ObservationIndex, Outcome, RewardTracker, StateId,
    Step, Value,
};
use tonic::Code;

use super::calls::ObservedState;
use super::connection::CallKind;
use super::program::ServiceProgram;
use super::service::SharedService;
use super::trouble::{Trouble, refused};
use crate::proto::{ForkSessionRequest, StepReply};

/// How often a session is brought back whose actions lead elsewhere, before that is an error. It is
/// as often as for a worker.
const RESTARTS_MAX: u32 = 3;

/// A session whose compiler a service holds.
pub(super) struct ServiceSession {
    service: Arc<SharedService>,
    episode: Option<RemoteEpisode>,
}

/// An episode under way, and the way to its state.
struct RemoteEpisode {
    /// The session at the service; none if it was lost.
    id: Option<i64>,
    program: ServiceProgram,
    /// The place of the action space in the specification.
    space: usize,
    actions: Vec<ActionIndex>,
    is_over: bool,
    state: ObservedState,
    rewards: RewardTracker,
    watched: Vec<ObservationIndex>,
}

impl ServiceSession {
    pub(super) fn new(service: Arc<SharedService>) -> Self {
        Self { service, episode: None }
    }

    /// Ends the session at the service, if there is one.
    fn leave(&mut self) {
        if let Some(id) = self.episode.take().and_then(|episode| episode.id) {
            self.service.end(id);
        }
    }

    /// Does something with the episode under way, which an error ends. Only an interrupt, a wrong
    /// name and an observation that the compiler fails on leave it as it was.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&SharedService, &mut RemoteEpisode) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let done = work(&self.service, episode);
        let goes_on = matches!(
            done,
            Ok(_)
                | Err(SessionError::Interrupted
                    | SessionError::InvalidAction { .. }
                    | SessionError::UnknownSpace { .. }
                    | SessionError::NoEpisode
                    | SessionError::Unobservable(_))
        );
        if !goes_on {
            self.leave();
        }
        done
    }
}

impl RemoteEpisode {
    /// Returns the session at the service, which is brought back if it was lost.
    fn session(&mut self, service: &SharedService) -> Result<i64, Trouble> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let mut attempts = 0;
        loop {
            match self.bring_back(service) {
                Err(trouble @ Trouble::Elsewhere { .. }) => {
                    if attempts == RESTARTS_MAX {
                        return Err(trouble);
                    }
                    attempts += 1;
                    tracing::debug!(?trouble, "a session does not come back, and is tried again");
                }
                done => return done,
            }
        }
    }

    /// Plays the episode in a fresh session at the service. Nothing that fails here is a failure of
    /// an action.
    fn bring_back(&mut self, service: &SharedService) -> Result<i64, Trouble> {
        let (id, mut state) =
            service.begin(&self.program, self.space).map_err(Trouble::elsewhere)?;
        self.id = Some(id);
        if !self.actions.is_empty() {
            let needed = service.needed();
            let work = CallKind::Back(u32::try_from(self.actions.len()).unwrap_or(u32::MAX));
            let reply = service.step(id, &self.actions, &needed, work);
            let reply = reply.map_err(|trouble| self.lose(service, trouble).elsewhere())?;
            state = service.state(&needed, reply.observation)?;
        }
        if state.id == self.state.id {
            return Ok(id);
        }
        let found = format!("state {}", state.id);
        Err(self.lose(service, Trouble::Elsewhere { found, is_failure: false }))
    }

    /// Forgets the session at the service: what state it is in is not known.
    fn lose(&mut self, service: &SharedService, trouble: Trouble) -> Trouble {
        if let Some(id) = self.id.take()
            && !matches!(trouble, Trouble::Lost(_))
        {
            service.end(id);
        }
        trouble
    }

    /// Applies an action in this session, or in a fresh one if that fails.
    fn advance(
        &mut self,
        service: &SharedService,
        action: ActionIndex,
    ) -> Result<StepReply, Trouble> {
        let needed = service.needed();
        service.persist(|| {
            let id = self.session(service)?;
            let reply = service.step(id, &[action], &needed, CallKind::Step);
            reply.map_err(|trouble| self.lose(service, trouble))
        })
    }

    fn apply(
        &mut self,
        service: &SharedService,
        action: ActionIndex,
    ) -> Result<Step, SessionError> {
        let space = &service.spec.action_spaces[self.space];
        if space.get(action).is_none() {
            let (index, len) = (action.0, space.actions.len());
            return Err(SessionError::InvalidAction { index, space: space.name.clone(), len });
        }
        if self.is_over {
            return Err(SessionError::NoEpisode);
        }
        let begun = Instant::now();
        let reply = match self.advance(service, action) {
            Ok(reply) => reply,
            Err(Trouble::Failed(failure)) => {
                let rewards = service.spec.reward_spaces.len();
                return Ok(Step::failed(failure, rewards, begun.elapsed()));
            }
            Err(trouble) => return Err(trouble.error("an action")),
        };
        let wall_time = begun.elapsed();
        let state = service.state(&service.needed(), reply.observation);
        let state = state.map_err(|trouble| trouble.error("an action"))?;
        let changed = state.id != self.state.id;
        let rewards = if changed {
            let costs = service.costs(&state)?;
            self.state = state;
            self.rewards.advance(cost_of(&costs))
        } else {
            self.rewards.rest()
        };
        self.actions.push(action);
        self.is_over = reply.end_of_session;
        let outcome = Outcome::State {
            id: self.state.id,
            changed,
            end_of_episode: self.is_over,
            action_space_changed: false,
        };
        Ok(Step { outcome, rewards, wall_time })
    }

    /// Looks at the state, and at what else is watched of it.
    fn observe(
        &mut self,
        service: &SharedService,
        index: ObservationIndex,
    ) -> Result<Value, SessionError> {
        let at = usize::from(index.0);
        if let Some(known) = &self.state.observed[at] {
            return Ok(known.clone());
        }
        let mut spaces = vec![index];
        if self.watched.contains(&index) {
            let others = self.watched.iter().copied().filter(|&other| other != index);
            // What the compiler fails on must not fail with it.
            let own = &service.spec.observation_spaces;
            let is_compiled = |one: ObservationIndex| own[usize::from(one.0)].is_compiled;
            let others = others.filter(|&other| is_compiled(index) || !is_compiled(other));
            spaces.extend(others.filter(|one| self.state.observed[usize::from(one.0)].is_none()));
        }
        let reply = service.persist(|| {
            let id = self.session(service)?;
            let reply = service.step(id, &[], &spaces, CallKind::Step);
            reply.map_err(|trouble| self.lose(service, trouble))
        });
        let reply = reply.map_err(|trouble| match trouble {
            Trouble::Failed(failure) => SessionError::Unobservable(failure),
            trouble => trouble.error("an observation"),
        })?;
        let taken = service.take_down(&mut self.state.observed, &spaces, reply.observation);
        taken.map_err(|trouble| trouble.error("an observation"))?;
        let seen = self.state.observed[at].clone();
        seen.ok_or_else(|| refused("an observation", "it did not come"))
    }

    /// Opens a second session in the same state: a fork at the service, or if it has none, a fresh
    /// session that plays the same actions.
    fn fork(&mut self, service: &SharedService) -> Result<Self, SessionError> {
        let forked = service.persist(|| {
            let session_id = self.session(service)?;
            let forked =
                service.connection.call(&service.served, CallKind::Start, async |mut client| {
                    client.fork_session(ForkSessionRequest { session_id }).await
                });
            forked.map_err(|silence| match Trouble::from(silence) {
                refused @ Trouble::Refused(..) => refused,
                trouble => self.lose(service, trouble),
            })
        });
        let id = match forked {
            Ok(reply) => Some(reply.session_id),
            Err(Trouble::Refused(Code::Unimplemented, _)) => None,
            Err(trouble) => return Err(trouble.error("a fork")),
        };
        let mut fork = Self {
            id,
            program: self.program.clone(),
            space: self.space,
            actions: self.actions.clone(),
            is_over: self.is_over,
            state: self.state.clone(),
            rewards: self.rewards.clone(),
            watched: self.watched.clone(),
        };
        fork.prove(service).inspect_err(|_| {
            if let Some(id) = fork.id {
                service.end(id);
            }
        })?;
        Ok(fork)
    }

    /// Makes sure that the session at the service is in the state of the episode.
    fn prove(&mut self, service: &SharedService) -> Result<(), SessionError> {
        if self.id.is_none() {
            let session = service.persist(|| self.session(service));
            return session.map(drop).map_err(|trouble| trouble.error("a fork"));
        }
        let needed = service.needed();
        let looked = self.session(service).and_then(|id| {
            let reply = service.step(id, &[], &needed, CallKind::Step)?;
            service.state(&needed, reply.observation)
        });
        let state = looked.map_err(|trouble| trouble.error("a fork"))?;
        if state.id == self.state.id {
            return Ok(());
        }
        Err(SessionError::Broken(format!(
            "a fork at the service is in state {}, and the session that it was made of in {}",
            state.id, self.state.id
        )))
    }
}

fn cost_of(costs: &[(String, f64)]) -> impl Fn(&str) -> f64 {
    |name| costs.iter().find(|(known, _)| known == name).map_or(f64::NAN, |&(_, cost)| cost)
}

fn unknown_space(spec: &EnvironmentSpec, name: &str) -> SessionError {
    SessionError::UnknownSpace { name: name.to_owned(), environment: spec.name.to_string() }
}

impl Session for ServiceSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.leave();
        let service = Arc::clone(&self.service);
        let spaces = &service.spec.action_spaces;
        let space = spaces.iter().position(|space| space.name == start.action_space);
        let space = space.ok_or_else(|| unknown_space(&service.spec, start.action_space))?;
        let program = ServiceProgram::new(start.benchmark);
        if start.benchmark.uri.scheme() == "file" && !program.is_ours() {
            let (uri, detail) = (start.benchmark.uri.to_string(), "the file is empty".to_owned());
            return Err(SessionError::BadProgram { uri, detail });
        }
        let begun = service.persist(|| service.begin(&program, space));
        let uri = || start.benchmark.uri.to_string();
        let told = |said: &str| program.told(said, start.benchmark.uri.as_str());
        let (id, state) = begun.map_err(|trouble| match trouble.told(&told) {
            Trouble::Failed(failure) => SessionError::StartFailed { uri: uri(), failure },
            Trouble::Refused(Code::NotFound, detail) => SessionError::BadProgram {
                uri: uri(),
                detail: format!("{detail} (the service has to know it; file:///PATH sends a file)"),
            },
            Trouble::Refused(Code::InvalidArgument, detail) => {
                SessionError::BadProgram { uri: uri(), detail }
            }
            trouble => trouble.error(&format!("the program {}", uri())),
        })?;
        let tracked = service.costs(&state).and_then(|costs| {
            let spaces = service.spec.reward_spaces.iter().map(Some);
            let tracker = RewardTracker::new(spaces, &Baselines::default(), cost_of(&costs));
            tracker.map_err(|name| unknown_space(&service.spec, &name))
        });
        let rewards = tracked.inspect_err(|_| service.end(id))?;
        let Watch { spaces: watched, .. } = start.watch.clone();
        let (actions, is_over, started) = (Vec::new(), false, state.id);
        self.episode = Some(RemoteEpisode {
            id: Some(id),
            program,
            space,
            actions,
            is_over,
            state,
            rewards,
            watched,
        });
        Ok(Started { state: started, baselines: Baselines::default() })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let step = self.with(|service, episode| episode.apply(service, action))?;
        if step.outcome.state().is_none() {
            self.leave();
        }
        Ok(step)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        if self.service.spec.observation_space(space).is_none() {
            return Err(unknown_space(&self.service.spec, &space.0.to_string()));
        }
        self.with(|service, episode| episode.observe(service, space))
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        Ok(StateId(bitcode_sha1(state)))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.with(|service, episode| episode.fork(service))?;
        Ok(Box::new(Self { service: Arc::clone(&self.service), episode: Some(episode) }))
    }
}

impl Drop for ServiceSession {
    fn drop(&mut self) {
        self.leave();
    }
}
