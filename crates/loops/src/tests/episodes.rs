//! Sessions: steps, observations and rewards.

use super::{after, initial};
use crate::costs::Costs;
use crate::{CURSOR_SPACE, LoopsEnvironment, LoopsState, NAME};
use steplake_env::{Environment, Session, SessionError, Start, Watch};
use steplake_model::{ActionIndex, Benchmark, Value};

fn benchmark(name: &str) -> Benchmark {
    let datasets = LoopsEnvironment::default().own_datasets();
    datasets[0].benchmark(&format!("benchmark://{NAME}/{name}").parse().unwrap()).unwrap()
}

fn started(name: &str, action_space: &str) -> Box<dyn Session> {
    let mut session = LoopsEnvironment::default().session().unwrap();
    let (benchmark, watch) = (benchmark(name), Watch::default());
    session
        .start(&Start { benchmark: &benchmark, action_space, baselines: None, watch: &watch })
        .unwrap();
    session
}

fn index(space: usize, action: &str) -> ActionIndex {
    LoopsEnvironment::default().spec().action_spaces[space].index_of(action).unwrap()
}

fn observed(session: &mut dyn Session, space: &str) -> Value {
    let index = LoopsEnvironment::default().spec().observation_index(space).unwrap();
    session.observe(index).unwrap()
}

fn number(session: &mut dyn Session, space: &str) -> i64 {
    match observed(session, space) {
        Value::Int(number) => number,
        other => panic!("{space} is {other:?}"),
    }
}

#[test]
fn every_space_shows_every_program() {
    let environment = LoopsEnvironment::default();
    for uri in environment.own_datasets()[0].expand("").unwrap() {
        let mut session = started(uri.path(), NAME);
        for space in &environment.spec().observation_spaces {
            let value = observed(session.as_mut(), &space.name);
            assert!(!matches!(value, Value::Int(..0)), "{}: {value:?}", space.name);
        }
        let Value::Bytes(state) = observed(session.as_mut(), "state") else { panic!() };
        let first = initial(uri.path());
        assert_eq!(session.identify(&state).unwrap(), first.identify());
        assert_eq!(state, first.text().into_bytes());
        let least = number(session.as_mut(), "CompulsoryBytes");
        assert!(number(session.as_mut(), "MovedBytesL3") >= least, "{uri}");
    }
}

#[test]
fn a_reward_is_what_a_step_saves() {
    let mut session = started("matmul-256x256x256", NAME);
    let before = number(session.as_mut(), "MovedBytesL1");
    let mut fork = session.fork().unwrap();
    let step = session.apply(index(0, "swap[0]")).unwrap();
    let saved = before - number(session.as_mut(), "MovedBytesL1");
    let spec = LoopsEnvironment::default();
    let place = spec.spec().reward_spaces.iter().position(|space| space.name == "MovedBytesL1");
    let reward = step.rewards[place.unwrap()];
    assert!((reward - steplake_model::as_f64(saved)).abs() < 0.5, "{reward} {saved}");
    assert_ne!(saved, 0);
    assert_eq!(number(fork.as_mut(), "MovedBytesL1"), before);
    assert_eq!(number(session.as_mut(), "MovedBytesL1Initial"), before);
    let step = session.apply(index(0, "merge[0]")).unwrap();
    assert!(step.rewards.iter().all(|&reward| reward.abs() < 0.5), "{:?}", step.rewards);
    let invalid = session.apply(ActionIndex(100_000));
    assert!(matches!(invalid, Err(SessionError::InvalidAction { .. })));
}

#[test]
fn the_model_of_caches_counts_lines() {
    let add = initial("add-1048576");
    let costs = Costs::new(&add);
    assert_eq!(costs.moved_bytes(32 << 10), 3 << 22, "each element comes once");
    assert_eq!((costs.operations(), costs.compulsory_bytes()), (1 << 20, 3 << 22));
    // For each row of the product, all of the right operand comes once more.
    let matmul = initial("matmul-1024x1024x1024");
    let row = 64 + 64 + (1 << 16);
    assert_eq!(Costs::new(&matmul).moved_bytes(32 << 10), 1024 * row * 64);
    assert_eq!(Costs::new(&matmul).moved_bytes(1 << 30), 3 << 22);
    let tiled = ["split[0,64]", "swap[1]", "swap[2]", "split[2,16]", "swap[1]"];
    let tiled = after("matmul-1024x1024x1024", &tiled);
    let moved = Costs::new(&tiled).moved_bytes(1 << 20);
    assert!(moved < 1024 * row * 64 / 4, "{moved} in\n{}", tiled.text());
}

#[test]
fn a_packed_input_is_two_arrays_and_narrow_rows_share_lines() {
    let l1 = 32 << 10;
    let packed = after("add-1048576", &["pack[0]"]);
    assert_eq!(Costs::new(&packed).moved_bytes(l1), 5 << 22, "one is copied, three are added");
    // A column of the right operand, and one of the product.
    let narrow = initial("matmul-1024x1024x1");
    assert_eq!(Costs::new(&narrow).moved_bytes(1 << 20), (1 << 22) + 2 * (1 << 12));
}

#[test]
fn estimates_tell_good_schedules_from_bad_ones() {
    let cycles =
        |program: &str, actions: &[&str]| Costs::new(&after(program, actions)).estimated_cycles();
    let add = ["split[0,8]", "vectorize[1]", "parallel[0]", "stream[1]"];
    let estimates = (0..=add.len()).map(|count| cycles("add-67108864", &add[..count]));
    let estimates = estimates.collect::<Vec<_>>();
    assert!(estimates.is_sorted_by(|one, next| one >= next), "{estimates:?}");
    assert!(estimates[4] < estimates[0] / 3, "{estimates:?}");
    let sums = |actions| cycles("sums-512x1024", actions);
    let lanes = sums(&["cache[1]", "split[1,32]", "vectorize[2]"]);
    assert!(lanes < sums(&[]) / 4, "lanes are added to by themselves");
    // A tile of registers: each operand that is read is used several times.
    let product = |actions| cycles("matmul-256x256x256", actions);
    let vectors = ["split[2,16]", "vectorize[3]"];
    let tile = [
        "split[0,6]",
        "swap[1]",
        "swap[2]",
        "split[2,16]",
        "swap[1]",
        "swap[3]",
        "cache[2]",
        "unroll[3]",
        "vectorize[4]",
    ];
    assert!(product(&tile) < product(&vectors) && product(&vectors) < product(&[]));
    // A tile that is written back after every second term.
    let deep = |cache| {
        let split = [&tile[..6], &["split[2,2]", cache, "unroll[4]", "vectorize[5]"]].concat();
        cycles("matmul-256x256x256", &split)
    };
    assert!(deep("cache[2]") < deep("cache[3]"));
}

#[test]
fn rows_a_page_apart_share_few_sets() {
    let panels = |name| {
        let state = after(name, &["split[2,16]", "swap[1]", "swap[0]"]);
        Costs::new(&state).moved_bytes(32 << 10)
    };
    // A panel of the right operand has 256 lines, and is read for each of 32 rows.
    let (apart, beside) = (panels("matmul-32x256x1040") / 65, panels("matmul-32x256x1024") / 64);
    assert_eq!(apart, (32 * 16 + 256 + 32) * 64);
    assert_eq!(beside, 32 * (16 + 256 + 1) * 64);
}

/// Schedules of a product of matrices of 1024 by 1024, with what they reached on two Zen 3 cores.
const MEASURED: [(f64, &[&str]); 4] = [
    (
        119.0,
        &[
            "n by 64 parallel",
            "k by 128",
            "m by 6",
            "n by 16",
            "k by 1 cache",
            "m by 1 unroll",
            "n by 8 unroll",
            "n by 1 vectorize",
        ],
    ),
    (
        93.8,
        &[
            "n by 16 parallel",
            "m by 6",
            "k by 1 cache",
            "m by 1 unroll",
            "n by 8 unroll",
            "n by 1 vectorize",
        ],
    ),
    (
        43.9,
        &[
            "m by 128 parallel",
            "k by 64",
            "m by 64",
            "m by 32 unroll",
            "m by 8",
            "m by 4",
            "k by 2",
            "n by 64 unroll",
            "m by 1 unroll",
            "k by 1 unroll cache",
            "n by 1 vectorize",
        ],
    ),
    (
        23.5,
        &[
            "m by 128 parallel",
            "k by 128",
            "m by 32",
            "m by 4",
            "k by 2",
            "k by 1 unroll",
            "n by 64 unroll",
            "m by 1 unroll",
            "n by 1 vectorize",
        ],
    ),
];

#[test]
fn estimates_rank_schedules_as_they_were_measured() {
    let text = initial("matmul-1024x1024x1024").text();
    let program = &text[..text.find("for m").unwrap()];
    let estimates = MEASURED.map(|(_, loops)| {
        let indented = loops.iter().chain(&["%2", "%3"]).enumerate().map(|(depth, line)| {
            let word = if depth < loops.len() { "for " } else { "" };
            format!("{}{word}{line}\n", "  ".repeat(depth.min(loops.len())))
        });
        let text = program.to_owned() + &indented.collect::<String>();
        Costs::new(&LoopsState::parse(text.as_bytes()).unwrap()).estimated_cycles()
    });
    assert!(MEASURED.is_sorted_by(|one, next| one.0 > next.0));
    assert!(estimates.is_sorted_by(|one, next| one < next), "{estimates:?}");
}

#[test]
fn an_episode_with_a_cursor() {
    let mut session = started("add-100", CURSOR_SPACE);
    let show = |session: &mut dyn Session| {
        let Value::IntVector(numbers) = observed(session, "action_state") else { panic!() };
        let Value::Text(tree) = observed(session, "loop_tree") else { panic!() };
        (numbers.to_vec(), tree)
    };
    assert_eq!(show(session.as_mut()).0, [0, 100, 0]);
    for action in ["toggle_mode", "up", "toggle_mode", "up", "up"] {
        session.apply(index(1, action)).unwrap();
    }
    let (numbers, tree) = show(session.as_mut());
    assert_eq!(numbers, [1, 3, 0]);
    assert_eq!(
        tree,
        "0: n 33 + tail 1 by 3 parallel\n  1: n 3\n    2: n 1\n      %2 = add %0 %1\n"
    );
    let Value::Bytes(state) = observed(session.as_mut(), "state") else { panic!() };
    assert!(String::from_utf8(state).unwrap().ends_with("cursor 1 resize\n"));
}
