//! One command line on one program.

use std::sync::Arc;

use crate::env::worker::WorkerConfig;
use crate::env::{
    Destination, Environment, Expected, Route, Session, SessionError, Start, Strayed, Watch,
};
use crate::model::{
    ActionIndex, ActionSpace, Baselines, Benchmark, RewardSpace, Scale, Value, as_f64,
};
use crate::{Error, ErrorKind};

/// Plays command lines in an environment, for one reward.
pub(super) struct Player {
    pub(super) environment: Box<dyn Environment>,
    pub(super) reward: RewardSpace,
    /// Of its workers.
    pub(super) config: WorkerConfig,
}

/// A program of a task.
pub(super) struct TaskProgram {
    pub(super) benchmark: Benchmark,
    pub(super) source: Option<String>,
    pub(super) baselines: Option<Baselines>,
}

/// What a command line does with a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParsedCommandLine {
    /// It applies actions.
    Actions(Vec<ActionIndex>),
    /// It makes all choices at once, where states are given by choices.
    Choices(Box<[i32]>),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PlayResult {
    /// The reward: what all of its steps add up to.
    pub(super) reward: f64,
    /// What the result costs.
    pub(super) cost: f64,
    /// The cost that the reward is relative to.
    pub(super) reference: f64,
}

/// Why nothing came of it.
#[derive(Debug)]
pub(super) enum PlayError {
    /// The compiler fails, which is a fault of the command line.
    Refused(String),
    /// The machine fails.
    Failed(Error),
}

impl From<SessionError> for PlayError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::StartFailed { failure, .. } => {
                Self::Refused(format!("the compiler fails on the program: {}", failure.detail))
            }
            SessionError::Unobservable(failure) => {
                Self::Refused(format!("the result has no such cost: {failure}"))
            }
            other => Self::Failed(other.into()),
        }
    }
}

impl Player {
    /// Returns a player whose compiler runs in other processes and knows nothing of what this one's
    /// has made; none if each session is in a worker of its own anyway.
    pub(super) fn apart(&self) -> Option<Self> {
        let environment = self.environment.within(&self.config)?;
        Some(Self { environment, reward: self.reward.clone(), config: self.config.clone() })
    }

    /// Plays a command line.
    pub(super) fn play(
        &self,
        space: &ActionSpace,
        subject: &TaskProgram,
        way: &ParsedCommandLine,
    ) -> Result<PlayResult, PlayError> {
        let mut session = self.environment.session()?;
        let start = |session: &mut dyn Session, benchmark: &Benchmark| {
            session.start(&Start {
                benchmark,
                action_space: &space.name,
                baselines: subject.baselines.as_ref(),
                watch: &Watch::default(),
            })
        };
        let mut baselines = start(session.as_mut(), &subject.benchmark)?.baselines;
        let before = self.number(session.as_mut(), &self.reward.cost)?;
        self.complete(session.as_mut(), &mut baselines)?;
        match way {
            ParsedCommandLine::Actions(actions) => apply(session.as_mut(), space, actions)?,
            ParsedCommandLine::Choices(choices) => {
                let program = match self.environment.choices() {
                    Some(all) => all.program(&subject.benchmark.program, choices)?,
                    None => unreachable!("only an environment of choices reads them"),
                };
                let program = Arc::from(program);
                start(session.as_mut(), &Benchmark { program, ..subject.benchmark.clone() })?;
            }
        }
        let cost = self.number(session.as_mut(), &self.reward.cost)?;
        let divisor = self.reward.divisor(&baselines).map_err(|name| {
            PlayError::Failed(Error::new(ErrorKind::Failed, format!("{name} is not known")))
        })?;
        let reference = match &self.reward.scale {
            Scale::Baseline(name) => baselines.get(name).map_or(before, as_f64),
            Scale::Absolute | Scale::Initial => before,
        };
        Ok(PlayResult { reward: RewardSpace::reward(before, cost, divisor), cost, reference })
    }

    /// Adds the baselines that the reward needs and the session has not said.
    fn complete(
        &self,
        session: &mut dyn Session,
        baselines: &mut Baselines,
    ) -> Result<(), PlayError> {
        let needed: &[_] = match &self.reward.scale {
            Scale::Absolute => &[],
            Scale::Initial => &[&self.reward.initial],
            Scale::Baseline(name) => &[&self.reward.initial, name],
        };
        for name in needed {
            if baselines.get(name).is_none()
                && let Value::Int(cost) = self.observed(session, name)?
            {
                baselines.0.push((name.to_string(), cost));
            }
        }
        Ok(())
    }

    /// Observes a cost.
    fn number(&self, session: &mut dyn Session, name: &str) -> Result<f64, PlayError> {
        match self.observed(session, name)? {
            Value::Int(cost) => Ok(as_f64(cost)),
            Value::Float(cost) => Ok(cost),
            other => {
                let said = format!("{name} is {other:?}, which is not a number");
                Err(SessionError::Defect(said).into())
            }
        }
    }

    fn observed(&self, session: &mut dyn Session, name: &str) -> Result<Value, PlayError> {
        let spec = self.environment.spec();
        let space = spec.observation_index(name).ok_or_else(|| SessionError::UnknownSpace {
            name: name.to_owned(),
            environment: spec.name.to_string(),
        })?;
        Ok(session.observe(space)?)
    }
}

/// Applies actions to the end.
fn apply(
    session: &mut dyn Session,
    space: &ActionSpace,
    actions: &[ActionIndex],
) -> Result<(), PlayError> {
    let route = Route { actions, expected: Expected::Any };
    route.bring(session, |_, _| {})?.map_err(|Strayed { at, found }| {
        let name = space.get(actions[at - 1]).map_or("", |action| action.name.as_str());
        PlayError::Refused(match found {
            Destination::Failure(died) => {
                format!("the compiler fails on action {at}, {name}: {died}")
            }
            _ => format!("the episode is over before action {at}, {name}"),
        })
    })
}
