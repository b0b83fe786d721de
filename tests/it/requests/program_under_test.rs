//! What belongs to the machine, of a program that is built and run.

use std::path::Path;
use std::sync::Arc;

use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::loops::LoopsEnvironment;
use steplake::env::toy::ToyEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::execution::{ExecutionError, RunSettings};
use steplake::model::{Benchmark, Execution, Linker, MachineSpace, Provenance, StateId, Value};
use steplake::program_under_test::{MachineSpaceError, ProgramUnderTest};
use steplake::sandbox::Interrupt;

const SPACE: &str = "llvm22-v1";

/// A session of a program, with its state, and the program itself.
struct Begun {
    environment: Arc<dyn Environment>,
    session: Box<dyn Session>,
    state: StateId,
    program: ProgramUnderTest,
    _files: tempfile::TempDir,
}

impl Begun {
    fn new(execution: Option<Execution>, exit_code: u8) -> Self {
        let text = format!(
            "define i32 @main() {{
               %a = alloca i32
               store i32 {exit_code}, ptr %a
               %c = load i32, ptr %a
               ret i32 %c
             }}"
        );
        let benchmark = Benchmark {
            uri: "benchmark://user-v0/exit".parse().unwrap(),
            program: assemble(text.as_bytes()).unwrap().into(),
            provenance: Provenance::default(),
            execution,
        };
        let environment: Arc<dyn Environment> = Arc::new(LlvmEnvironment::new());
        let mut session = environment.session().unwrap();
        let start = Start {
            benchmark: &benchmark,
            action_space: SPACE,
            baselines: None,
            watch: &Watch::default(),
        };
        let state = session.start(&start).unwrap().state;
        let files = tempfile::tempdir().unwrap();
        let program = ProgramUnderTest::new(
            Arc::clone(&environment),
            benchmark,
            RunSettings::default(),
            files.path().to_owned(),
        );
        Self { environment, session, state, program, _files: files }
    }

    fn observe(&mut self, space: MachineSpace) -> Result<Value, MachineSpaceError> {
        self.program.observe(space, self.session.as_mut(), self.state)
    }

    fn int(&mut self, space: MachineSpace) -> i64 {
        match self.observe(space).unwrap() {
            Value::Int(number) => number,
            other => panic!("{space:?} is {other:?}"),
        }
    }

    fn times(&mut self, space: MachineSpace) -> Vec<f64> {
        match self.observe(space).unwrap() {
            Value::FloatVector(times) => times.into_vec(),
            other => panic!("{space:?} is {other:?}"),
        }
    }

    fn apply(&mut self, name: &str) {
        let space = self.environment.spec().action_space(SPACE).unwrap();
        let step = self.session.apply(space.index_of(name).unwrap()).unwrap();
        self.state = step.outcome.state().unwrap();
    }
}

fn linked() -> Execution {
    Execution::linked(Linker::C, &[])
}

#[test]
fn every_space_has_values_of_its_type() {
    let mut begun = Begun::new(Some(linked()), 0);
    assert_eq!(ProgramUnderTest::spaces(begun.environment.spec()), MachineSpace::OF_PROGRAMS);
    for &space in MachineSpace::OF_PROGRAMS {
        let value = begun.observe(space).unwrap();
        let is_fitting = match space {
            MachineSpace::Runtime | MachineSpace::Buildtime => {
                matches!(value, Value::FloatVector(_))
            }
            MachineSpace::CpuInfo | MachineSpace::BitcodeFile => matches!(value, Value::Text(_)),
            _ => matches!(value, Value::Int(_)),
        };
        assert!(is_fitting, "{space:?}: {value:?}");
        let differs = matches!(value, Value::FloatVector(_)) || space == MachineSpace::BitcodeFile;
        if !differs {
            assert_eq!(begun.observe(space).unwrap(), value, "{space:?}");
        }
    }
    let Value::Text(path) = begun.observe(MachineSpace::BitcodeFile).unwrap() else { panic!() };
    let bitcode = begun.environment.spec().observation_index("Bitcode").unwrap();
    let Value::Bytes(bytes) = begun.session.observe(bitcode).unwrap() else { panic!() };
    assert_eq!(std::fs::read(Path::new(&path)).unwrap(), bytes);
    assert_eq!(begun.int(MachineSpace::TextSizeBytes), begun.int(MachineSpace::TextSizeO0));
}

#[test]
fn an_executable_is_that_of_the_present_state() {
    let mut begun = Begun::new(Some(linked()), 0);
    let first = begun.int(MachineSpace::TextSizeBytes);
    let (o0, oz) = (begun.int(MachineSpace::TextSizeO0), begun.int(MachineSpace::TextSizeOz));
    let (mut fork, state) = (begun.program.fork(), begun.state);
    let mut other = begun.session.fork().unwrap();
    begun.apply("mem2reg");
    let smaller = begun.int(MachineSpace::TextSizeBytes);
    assert!(smaller < first, "{smaller} is no less than {first}");
    assert_eq!((o0, begun.int(MachineSpace::TextSizeO0)), (first, first));
    assert_eq!(begun.int(MachineSpace::TextSizeOz), oz);
    let of_fork = fork.observe(MachineSpace::TextSizeBytes, other.as_mut(), state).unwrap();
    assert_eq!(of_fork, Value::Int(first));
}

#[test]
fn programs_are_built_and_run_as_often_as_wanted() {
    let mut begun = Begun::new(Some(linked()), 0);
    let counts = [MachineSpace::Runtime, MachineSpace::Buildtime].map(|one| begun.times(one).len());
    assert_eq!(counts, [1, 1]);
    begun.program.counts.runtimes = 3;
    begun.program.counts.warmups = 1;
    begun.program.counts.buildtimes = 2;
    for (space, count) in [(MachineSpace::Runtime, 3), (MachineSpace::Buildtime, 2)] {
        let times = begun.times(space);
        assert!(times.len() == count && times.iter().all(|&time| time > 0.0), "{times:?}");
    }
}

#[test]
fn what_cannot_be_run_says_why() {
    let mut mute = Begun::new(None, 0);
    let flags = [MachineSpace::IsBuildable, MachineSpace::IsRunnable].map(|one| mute.int(one));
    assert_eq!(flags, [0, 0]);
    let error = mute.observe(MachineSpace::Runtime).unwrap_err();
    assert!(matches!(error, MachineSpaceError::NotRunnable(_)), "{error}");
    assert!(error.to_string().contains("benchmark://user-v0/exit cannot be run"), "{error}");
    let error = mute.observe(MachineSpace::Buildtime).unwrap_err();
    assert!(matches!(error, MachineSpaceError::NotBuildable(_)), "{error}");
    // The size is that of the object file.
    let object = mute.environment.spec().observation_index("ObjectTextSizeBytes").unwrap();
    let object = mute.session.observe(object).unwrap();
    assert_eq!(mute.observe(MachineSpace::TextSizeBytes).unwrap(), object);

    let mut built_only = Begun::new(Some(Execution { run: None, ..linked() }), 0);
    assert_eq!(built_only.int(MachineSpace::IsBuildable), 1);
    assert_eq!(built_only.times(MachineSpace::Buildtime).len(), 1);
    let error = built_only.observe(MachineSpace::Runtime).unwrap_err();
    assert!(matches!(error, MachineSpaceError::NotRunnable(_)), "{error}");
}

#[test]
fn a_program_may_end_with_any_exit_code_and_has_to_keep_it() {
    let [mut zero, mut three] = [0, 3].map(|code| Begun::new(Some(linked()), code));
    three.apply("mem2reg");
    three.program.counts.runtimes = 2;
    assert_eq!(three.times(MachineSpace::Runtime).len(), 2);
    // What actions have made of the program ends otherwise.
    let wrong = (zero.session.as_mut(), zero.state);
    let error = three.program.observe(MachineSpace::Runtime, wrong.0, wrong.1).unwrap_err();
    let is_wrong = matches!(error, MachineSpaceError::Execution(ExecutionError::Differs { .. }));
    assert!(is_wrong, "{error}");
    let how = "it ended with exit code 0, where it ended with exit code 3 before";
    assert!(error.to_string().ends_with(how), "{error}");
    // Forks know what it has to do.
    let mut fork = three.program.fork();
    assert!(fork.observe(MachineSpace::Runtime, zero.session.as_mut(), zero.state).is_err());
    assert_eq!(zero.times(MachineSpace::Runtime).len(), 1);
}

#[test]
fn whoever_gives_up_gets_no_more_builds_and_runs() {
    let mut begun = Begun::new(Some(linked()), 0);
    begun.times(MachineSpace::Runtime);
    begun.program.interrupt = Interrupt::new(|| true);
    for space in [MachineSpace::Runtime, MachineSpace::Buildtime] {
        let error = begun.observe(space).unwrap_err();
        let is_interrupt = matches!(error, MachineSpaceError::Session(SessionError::Interrupted));
        assert!(is_interrupt, "{error}");
    }
    begun.program.interrupt = Interrupt::default();
    assert_eq!(begun.times(MachineSpace::Runtime).len(), 1);
}

#[test]
fn a_schedule_has_a_speed() {
    let environment: Arc<dyn Environment> = Arc::new(LoopsEnvironment::default());
    assert_eq!(ProgramUnderTest::spaces(environment.spec()), [MachineSpace::Flops]);
    let uri = "benchmark://loops-v0/add-4096".parse().unwrap();
    let benchmark = environment.own_datasets()[0].benchmark(&uri).unwrap();
    let mut session = environment.session().unwrap();
    let started = session
        .start(&Start {
            benchmark: &benchmark,
            action_space: "loop_tool-v0",
            baselines: None,
            watch: &Watch::default(),
        })
        .unwrap();
    let (settings, files) = (RunSettings::default(), std::env::temp_dir());
    let mut program = ProgramUnderTest::new(environment, benchmark, settings, files);
    let speed = program.observe(MachineSpace::Flops, session.as_mut(), started.state).unwrap();
    assert!(matches!(speed, Value::Float(speed) if speed > 0.0), "{speed:?}");
    let error = program.observe(MachineSpace::Runtime, session.as_mut(), started.state);
    assert!(matches!(error, Err(MachineSpaceError::NotRunnable(_))));
}

#[test]
fn an_environment_without_code_has_none_of_the_spaces() {
    assert_eq!(ProgramUnderTest::spaces(ToyEnvironment::default().spec()), []);
}
