//! What the compiler says of a lake beyond its bytes: that states are what their ids say, and
//! programs cost what their rows say.

use std::ops::ControlFlow;

use steplake::env::toy::ToyEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Started, forward};
use steplake::generate::{CampaignEnd, ResumeState, Stop};
use steplake::lake::{Disk, Lake, Table, to_the_end};
use steplake::model::{EnvironmentSpec, ObservationIndex, Value};
use steplake::record::{SpaceChoice, identity};
use steplake::replay::recompute::{baselines, ids};
use steplake::transfer::merge::{MergeOptions, merge};
use steplake::upkeep::StoredState;

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{ToyPrograms, err, perform, run, steplake, toy_plan};
use crate::fixtures::toy_lake::bitcode;

/// A toy environment that says what it likes.
#[derive(Debug, Clone)]
struct Liar {
    spec: EnvironmentSpec,
    /// Serialises other states than it is in.
    swaps_states: bool,
    /// The program whose baselines it makes larger.
    dear: Option<&'static str>,
    /// Has no compiler.
    is_away: bool,
}

impl Liar {
    fn honest() -> Self {
        let spec = ToyEnvironment::default().spec().clone();
        Self { spec, swaps_states: false, dear: None, is_away: false }
    }
}

impl Environment for Liar {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        if self.is_away {
            let (environment, detail) = (self.spec.name.to_string(), "it is away".to_owned());
            return Err(SessionError::Unavailable { environment, detail });
        }
        let session = ToyEnvironment::default().session()?;
        Ok(Box::new(LyingSession { session, liar: self.clone() }))
    }
}

struct LyingSession {
    session: Box<dyn Session>,
    liar: Liar,
}

impl Session for LyingSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let mut started = self.session.start(start)?;
        let measured = start.baselines.is_none();
        if measured && self.liar.dear == Some(start.benchmark.uri.as_str()) {
            started.baselines.0[1].1 += 5;
        }
        Ok(started)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        match self.session.observe(space)? {
            // A number that ends in 7 is written down as one that ends in 6.
            Value::Bytes(mut bytes) if self.liar.swaps_states && bytes.ends_with(b"7") => {
                *bytes.last_mut().unwrap() = b'6';
                Ok(Value::Bytes(bytes))
            }
            value => Ok(value),
        }
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let session = self.session.fork()?;
        Ok(Box::new(Self { session, liar: self.liar.clone() }))
    }

    forward!(self => self.session; apply, identify);
}

/// Takes the states that a verification reads.
type Compare<'a> = dyn FnMut(StoredState) -> ControlFlow<()> + 'a;

/// A lake that an environment recorded, in segments.
fn record(environment: &Liar) -> (tempfile::TempDir, Lake) {
    let folder = tempfile::tempdir().unwrap();
    let spec = environment.spec();
    let identity = identity(spec, &spec.action_spaces[0], &SpaceChoice::default()).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let plan = toy_plan("random", Stop::Episodes(30), 2);
    let performed = perform(environment, &ToyPrograms, writer, run, &plan, ResumeState::default());
    assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
    let mut writer = performed.writer;
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
    (folder, lake)
}

/// What `steplake verify` says, and its exit code.
fn verified(lake: &Lake) -> (i32, String) {
    let output = steplake(lake.path()).arg("verify").output_in_time();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    (output.status.code().unwrap_or(-1), said + &err(&output))
}

#[test]
fn a_sound_lake_is_compared_with_its_compiler() {
    let (_folder, lake) = record(&Liar::honest());
    let said = run(lake.path(), &["verify"]);
    assert!(said.starts_with("verify: sound; ") && said.contains(" by SHA-1 and id"), "{said}");
    assert!(said.ends_with("\nbaselines: 3 of 3 programs agree, drawn from 3\n"), "{said}");
}

#[test]
fn a_state_that_is_stored_under_the_name_of_another_is_found_by_its_id_alone() {
    let (_folder, lake) = record(&Liar { swaps_states: true, ..Liar::honest() });
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound() && report.ir > 30, "each has the SHA-1 that it says: {report:?}");
    let (code, said) = verified(&lake);
    assert_eq!(code, 4, "{said}");
    let first = said.lines().next().unwrap();
    let segment = lake.snapshot().unwrap().segments(Table::Ir)[0].path.clone();
    let told = format!("{}: what is stored as state ", segment.display());
    assert!(first.starts_with(&told) && first.contains(" is state "), "{said}");
    assert!(first.contains("report the defect") && first.ends_with(" more such)"), "{said}");
    assert!(said.contains("\nverify: not sound; "), "{said}");
    // Whatever the number of sessions.
    let compared = |jobs| {
        let read = |compare: &mut Compare<'_>| lake.verify_states(None, &mut to_the_end, compare);
        let toy = ToyEnvironment::default();
        let (read, ids) = ids(&toy, jobs, &mut to_the_end, read).unwrap();
        assert_eq!((read.unwrap().ir, ids.unavailable.as_ref()), (report.ir, None));
        assert_eq!(ids.compared, report.ir);
        ids
    };
    assert_eq!(compared(1), compared(5));
    assert!(said.contains(&compared(2).findings[0].what), "{said}");
}

#[test]
fn bytes_that_are_no_state_are_found() {
    let (folder, lake) = record(&Liar::honest());
    let (stored, path) = (lake.snapshot().unwrap(), folder.path().join("bad"));
    let read = |compare: &mut Compare<'_>| {
        let mut state = |mut stored: StoredState| {
            (stored.path, stored.bitcode) = (path.clone(), bitcode(7));
            compare(stored)
        };
        lake.verify_states(None, &mut to_the_end, &mut state).unwrap()
    };
    let ids = ids(&ToyEnvironment::default(), 2, &mut to_the_end, read).unwrap().1;
    assert_eq!((ids.compared, ids.findings.len()), (stored.rows(Table::Ir), 1));
    let what = &ids.findings[0].what;
    assert!(what.contains(" is no state (a toy state reads "), "{what}");
}

#[test]
fn a_lake_of_another_compiler_is_checked_by_its_bytes_only() {
    let mut other = Liar { swaps_states: true, ..Liar::honest() };
    other.spec.compiler = "toy 0.9".into();
    let (_folder, lake) = record(&other);
    let said = run(lake.path(), &["verify"]);
    assert!(said.starts_with("verify: sound; ") && said.contains(" by SHA-1 alone"), "{said}");
    let why = "verify: bytes only: ids and baselines are not recomputed, because the compiler is not available: \
               the lake was recorded with toy-v0 (toy 0.9), and what is here is toy-v0 (toy 1)\n";
    assert!(said.ends_with(why), "{said}");
}

#[test]
fn a_compiler_that_is_away_keeps_nobody_from_checking_bytes() {
    let (_folder, lake) = record(&Liar::honest());
    let away = Liar { is_away: true, ..Liar::honest() };
    let read = |compare: &mut Compare<'_>| lake.verify_states(None, &mut to_the_end, compare);
    let (report, ids) = ids(&away, 2, &mut to_the_end, read).unwrap();
    assert!(report.unwrap().ir > 30, "more than may wait");
    assert_eq!((ids.compared, ids.findings.len()), (0, 0));
    assert_eq!(ids.unavailable.as_deref(), Some("it is away"));
}

#[test]
fn baselines_that_the_compiler_does_not_confirm_are_found() {
    let dear = "generator://toy-v0/1";
    let (_folder, lake) = record(&Liar { dear: Some(dear), ..Liar::honest() });
    let (code, said) = verified(&lake);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("\nbaselines: 2 of 3 programs agree, drawn from 3\n"), "{said}");
    assert!(said.contains(&format!("\n  {dear}: CostOz is ")), "{said}");
    let snapshot = lake.snapshot().unwrap();
    let drawn = |count, seed, jobs| {
        baselines(&ToyEnvironment::default(), &snapshot, count, seed, jobs, &mut to_the_end)
            .unwrap()
    };
    assert_eq!(drawn(8, 0, 1), drawn(8, 3, 2));
    assert_eq!((drawn(2, 0, 1).compared, drawn(2, 0, 1).programs), (2, 3));
    let found = (0..20).filter(|&seed| !drawn(1, seed, 1).differing.is_empty()).count();
    assert!((1..20).contains(&found), "the seed chooses: {found} of 20");
}

#[test]
fn lakes_that_store_other_bytes_of_one_state_are_not_merged() {
    let (_one, honest) = record(&Liar::honest());
    let (_other, lying) = record(&Liar { swaps_states: true, ..Liar::honest() });
    let folder = tempfile::tempdir().unwrap();
    let (lakes, into) = ([honest, lying], folder.path().join("both"));
    let merged = merge(Disk::default(), &lakes, &into, &MergeOptions::default(), &mut |_, _| ());
    let error = merged.unwrap_err().to_string();
    assert!(error.starts_with("the IR of state"), "{error}");
    assert!(error.contains("which a verification of each finds out"), "{error}");
    assert!(error.contains("forged to have the id of the other"), "{error}");
}
