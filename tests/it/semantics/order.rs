//! What is found does not depend on the number of sessions, and is kept if a check ends early.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex};

use steplake::env::llvm::LlvmEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Started, Visit, forward};
use steplake::lake::to_the_end;
use steplake::model::{ActionIndex, Benchmark};
use steplake::semantics::{
    CheckedProgram, DrawnState, Miscompilation, SemanticsError, check_semantics,
};

use super::{SPACE, actions, of_memory, play, program, start, subtraction};

/// A program that prints a difference and a conjunction of numbers that are in memory at first.
fn two_results() -> Benchmark {
    program(
        "two",
        &(of_memory("difference", "sub")
            + &of_memory("conjunction", "and")
            + "@format = private constant [7 x i8] c\"%d %d\\0A\\00\"
         declare i32 @printf(ptr, ...)
         define i32 @main() {
           %d = call i32 @difference(i32 40, i32 2)
           %c = call i32 @conjunction(i32 6, i32 3)
           %p = call i32 (ptr, ...) @printf(ptr @format, i32 %d, i32 %c)
           ret i32 0
         }"),
    )
}

fn subject(benchmark: &Benchmark) -> CheckedProgram {
    let mut session = LlvmEnvironment::planted().session().unwrap();
    CheckedProgram {
        benchmark: benchmark.uri.clone(),
        execution: benchmark.execution.clone().unwrap(),
        initial: start(session.as_mut(), benchmark),
        program: Arc::clone(&benchmark.program),
        source: None,
        inputs: None,
    }
}

/// The state to which actions lead.
fn drawn(program: usize, benchmark: &Benchmark, names: &[&str]) -> DrawnState {
    let environment = LlvmEnvironment::planted();
    let mut session = environment.session().unwrap();
    start(session.as_mut(), benchmark);
    let space = environment.spec().action_space(SPACE).unwrap();
    let states = play(session.as_mut(), space, names);
    let state = *states.last().unwrap();
    DrawnState { program, state, path: actions(names).into_iter().zip(states).collect() }
}

#[test]
fn a_known_finding_hides_no_other_one() {
    let program = two_results();
    let paths: [&[&str]; 4] = [
        &["mem2reg", "planted-bug", "planted-other-bug"],
        &["mem2reg", "planted-bug"],
        &["dce", "instcombine", "planted-bug"],
        &["mem2reg", "planted-bug", "instcombine", "planted-other-bug"],
    ];
    let (subjects, drawn) = ([subject(&program)], paths.map(|names| drawn(0, &program, names)));
    let environment = LlvmEnvironment::planted();
    let found = |jobs| {
        let (report, ended) =
            check_semantics(&environment, SPACE, &subjects, &drawn, jobs, &mut to_the_end);
        ended.unwrap();
        assert_eq!((report.differing, report.excused.as_slice()), (4, [].as_slice()));
        report.findings
    };
    let one = found(1);
    assert_eq!(one, found(4));
    let of =
        |finding: &Miscompilation| (finding.actions.clone(), finding.states, finding.minimised);
    let expected = [
        (actions(&["instcombine", "planted-bug"]), 1, true),
        (actions(&["mem2reg", "planted-bug"]), 3, true),
        (actions(&["mem2reg", "planted-other-bug"]), 2, true),
    ];
    assert_eq!(one.iter().map(of).collect::<Vec<_>>(), expected);
}

/// An environment whose machine fails in the second program. Without a gate, it fails when a single
/// action is played: while its sequence is minimised. Otherwise it fails at once when the gate is
/// open, and waits until then.
#[derive(Debug)]
struct Failing(LlvmEnvironment, Option<Arc<Gate>>);

struct FailingSession(Box<dyn Session>, Option<Arc<Gate>>, bool);

#[derive(Debug, Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

impl Environment for Failing {
    forward!(self => self.0; spec);

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(FailingSession(self.0.session()?, self.1.clone(), false)))
    }
}

impl Session for FailingSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.2 = start.benchmark.uri.as_str().ends_with("subtraction.bc");
        self.0.start(start)
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        let fails = match &self.1 {
            Some(gate) if self.2 && !actions.is_empty() => {
                gate.pass();
                true
            }
            Some(_) => false,
            None => self.2 && actions.len() == 1,
        };
        if fails {
            return Err(SessionError::Machine("no process lives".to_owned()));
        }
        self.0.multistep(actions, visit)
    }

    forward!(self => self.0; apply, identify, observe, fork);
}

#[test]
fn what_was_found_before_the_end_is_reported() {
    let programs = [two_results(), subtraction()];
    let subjects = programs.each_ref().map(subject);
    let path = &["mem2reg", "planted-bug"];
    let drawn = [0, 1].map(|place| drawn(place, &programs[place], path));
    let checked = |environment: &dyn Environment, progress: &mut dyn FnMut(u64) -> bool| {
        check_semantics(environment, SPACE, &subjects, &drawn, 1, &mut |done, _| {
            if progress(done) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    };
    let failing = Failing(LlvmEnvironment::planted(), None);
    let (report, ended) = checked(&failing, &mut |_| true);
    assert!(matches!(ended, Err(SemanticsError::Session(SessionError::Machine(_)))), "{ended:?}");
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!((finding.subject, &finding.actions), (0, &actions(path)));
    let [other] = &report.excused[..] else { panic!("{report:?}") };
    assert!(other.why.contains("the check ended before"), "{other:?}");
    // Somebody stops it after both programs and one state.
    let gate = Arc::new(Gate::default());
    let waiting = Failing(LlvmEnvironment::planted(), Some(Arc::clone(&gate)));
    let (report, ended) = checked(&waiting, &mut |done| {
        if done >= 3 {
            gate.open();
        }
        done < 3
    });
    assert!(matches!(ended, Err(SemanticsError::Store(_))), "{ended:?}");
    assert_eq!((report.programs, report.differing), (2, 1));
    assert!(report.excused[0].why.contains("the check ended before"), "{report:?}");
}
