//! Transitions played again in another build of their compiler.

use steplake::env::toy::ToyEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Started};
use steplake::lake::to_the_end;
use steplake::model::{
    ActionIndex, EnvironmentSpec, ObservationIndex, Outcome, StateId, Step, Value,
};
use steplake::replay::{ReplayError, draw, replay, replay_elsewhere};

use super::recorded;

/// Another build of the toy compiler, in which one action leads elsewhere.
#[derive(Debug)]
struct OtherBuild {
    spec: EnvironmentSpec,
    changed: ActionIndex,
}

impl OtherBuild {
    fn new(changed: u32) -> Self {
        let spec = ToyEnvironment::default().spec().clone();
        let spec = EnvironmentSpec { compiler: "another build".into(), ..spec };
        Self { spec, changed: ActionIndex(changed) }
    }
}

impl Environment for OtherBuild {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(OtherSession(ToyEnvironment::default().session()?, self.changed)))
    }
}

struct OtherSession(Box<dyn Session>, ActionIndex);

impl Session for OtherSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.0.start(start)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let mut step = self.0.apply(action)?;
        if let Outcome::State { id, .. } = &mut step.outcome
            && action == self.1
        {
            *id = StateId(id.0.map(|byte| !byte));
        }
        Ok(step)
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.0.identify(state)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self(self.0.fork()?, self.1)))
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        self.0.observe(space)
    }
}

#[test]
fn another_build_agrees_but_on_the_action_that_it_changed() {
    let (_folder, lake) = recorded(6);
    let snapshot = lake.snapshot().unwrap();
    let all = draw(&snapshot, usize::MAX, 1).unwrap();
    let action = all[0].action;
    let mut other = OtherBuild::new(action.0);
    let refused = replay(&other, &snapshot, &all, 2, &mut to_the_end).unwrap_err();
    assert!(matches!(refused, ReplayError::OtherEnvironment { .. }), "{refused}");
    let report = replay_elsewhere(&other, &snapshot, &all, 2, &mut to_the_end).unwrap();
    assert_eq!(report.replayed + report.without_ir, all.len());
    assert!(!report.disagreements.is_empty());
    assert!(report.disagreements.iter().all(|one| one.transition.action == action));
    let agrees = |at: &&_| !report.disagreements.iter().any(|one| one.transition == **at);
    assert!(all.iter().filter(agrees).all(|at| at.action != action || report.without_ir > 0));
    // An action that means something else is no transition of the context.
    other.spec.action_spaces[0].actions[action.0 as usize].pipeline = "other".into();
    let report = replay_elsewhere(&other, &snapshot, &all, 2, &mut to_the_end).unwrap();
    assert!(report.disagreements.is_empty());
    assert!(report.replayed > 0 && report.replayed < all.len());
    other.spec.state_scheme += 1;
    let refused = replay_elsewhere(&other, &snapshot, &all, 2, &mut to_the_end).unwrap_err();
    assert!(matches!(refused, ReplayError::OtherEnvironment { .. }), "{refused}");
}
