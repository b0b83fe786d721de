//! The action, observation and reward spaces.

use std::collections::BTreeMap;

use super::features::{autophase_names, embedding_names, inst_count_names, inst_count_norm_names};
use steplake_model::{
    ActionFlags, ActionSpace, ActionSpec, ObservationSpace, RewardSpace, Scale, ValueType,
};

/// The target of all programs: generic x86-64, so that states do not depend on the machine on which
/// they were made.
pub(super) const TARGET: &str = "x86_64-pc-linux-gnu";

/// The committed action spaces, the default first: name, and rows of [`COLUMNS`]. The rows and
/// their order are fixed for a version of a space. The flags are the findings of a
/// [probe](super::probe).
pub(super) const ACTION_SPACES: [(&str, &str); 6] = [
    ("llvm22-v1", include_str!("actions/llvm22-v1.csv")),
    ("llvm22-all-v0", include_str!("actions/llvm22-all-v0.csv")),
    ("compilergym-v0", include_str!("actions/compilergym-v0.csv")),
    ("llvm22-param-v0", include_str!("actions/llvm22-param-v0.csv")),
    ("llvm22-pipelines-v0", include_str!("actions/llvm22-pipelines-v0.csv")),
    ("llvm22-v0", include_str!("actions/llvm22-v0.csv")),
];

/// What pipelines of the action spaces cost, as `scripts/action-costs.sh` measured it.
const ACTION_COSTS: &str = include_str!("actions/costs.csv");

/// The columns of [`ACTION_COSTS`]: the cost is wall time in ns for each instruction of a program.
const COST_COLUMNS: &str = "pipeline,cost";

/// Parses a table of costs. The error names the line.
fn parse_costs(text: &str) -> Result<BTreeMap<String, u32>, String> {
    let mut lines = (1..).zip(text.lines());
    let head = lines.next().map(|(_, head)| head);
    if head != Some(COST_COLUMNS) {
        return Err(format!("a table of costs has the columns {COST_COLUMNS}"));
    }
    let row = |(line, row): (usize, &str)| {
        let fields = split_fields(row);
        let [pipeline, cost] = fields.as_slice() else {
            return Err(format!("line {line} of a table of costs: not two fields"));
        };
        let cost =
            cost.parse().map_err(|error| format!("line {line} of a table of costs: {error}"));
        Ok((pipeline.clone(), cost?))
    };
    lines.map(row).collect()
}

/// Returns what actions cost, by their pipelines.
pub(super) fn action_costs() -> BTreeMap<String, u32> {
    parse_costs(ACTION_COSTS).expect("a test parses the table")
}

/// The columns of an action space's rows.
pub(super) const COLUMNS: [&str; 7] =
    ["name", "pipeline", "replayable", "crashes", "slow", "never_changes", "note"];

/// One row of an action space.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActionRow {
    pub(super) spec: ActionSpec,
    pub(super) note: String,
}

/// Parses the rows of an action space. The error names the line.
pub(super) fn parse_rows(text: &str) -> Result<Vec<ActionRow>, String> {
    let bad = |line: usize, problem: String| format!("line {line} of an action space: {problem}");
    let mut lines = (1..).zip(text.lines());
    if lines.next().is_none_or(|(_, head)| head != COLUMNS.join(",")) {
        return Err(bad(1, format!("not the columns {COLUMNS:?}")));
    }
    lines.map(|(line, row)| parse_row(row).map_err(|problem| bad(line, problem))).collect()
}

fn parse_row(line: &str) -> Result<ActionRow, String> {
    let fields = split_fields(line);
    let [name, pipeline, flags @ .., note] = fields.as_slice() else {
        return Err("too few fields".to_owned());
    };
    let flags = flags.iter().map(|text| text.parse::<bool>().map_err(|error| error.to_string()));
    let flags: Vec<bool> = flags.collect::<Result<_, _>>()?;
    let &[replayable, crashes, slow, never_changes] = flags.as_slice() else {
        return Err(format!("not {} fields", COLUMNS.len()));
    };
    let flags = ActionFlags { replayable, crashes, slow, never_changes };
    let spec = ActionSpec::new(name.as_str(), pipeline.as_str(), flags);
    Ok(ActionRow { spec, note: note.clone() })
}

/// Splits a CSV line into fields. A field may be in double quotes; quotes within are doubled.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let field = fields.last_mut().expect("there is always a field");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}

/// Formats the rows of an action space: the inverse of [`parse_rows`].
pub(super) fn format_rows(rows: &[ActionRow]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for ActionRow { spec, note } in rows {
        let flags = spec.flags;
        let flags = [flags.replayable, flags.crashes, flags.slow, flags.never_changes];
        let flags = flags.map(|flag| flag.to_string()).join(",");
        let fields = [quote(&spec.name), quote(&spec.pipeline), flags, quote(note)];
        text += &(fields.join(",") + "\n");
    }
    text
}

fn quote(field: &str) -> String {
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Returns all action spaces, the default first.
pub(super) fn action_spaces() -> Vec<ActionSpace> {
    let space = |(name, text): (&str, &str)| {
        let rows = parse_rows(text).expect("a test reads every committed action space");
        let actions = rows.into_iter().map(|row| row.spec).collect();
        ActionSpace { name: name.to_owned(), actions }
    };
    ACTION_SPACES.into_iter().map(space).collect()
}

/// How machine code is made of a program, apart from the passes on its IR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeGeneration {
    /// As `clang -O0` compiles IR. It shows what passes on the IR have done, and is quick.
    O0,
    /// As `llc -O2` compiles functions with the attribute `optsize`.
    Os,
    /// As `llc -O2` compiles functions with the attributes `optsize` and `minsize`.
    Oz,
    /// As `llc -O3` compiles functions as they are marked: for speed.
    O3,
}

/// The checks that are put into machine code. That of undefined behaviour is not among them: clang
/// inserts its checks where it translates the source, so a program has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sanitizer {
    Address,
    Memory,
    Thread,
}

/// What an observation space shows, in the order of [`observation_spaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Observation {
    Ir,
    /// The program for other tools: with the order of its use-lists.
    Bitcode,
    /// The same without that order, which follows from the rest: as states are stored.
    State,
    IrSha1,
    InstCount,
    InstCountNorm,
    Autophase,
    Programl,
    IrInstructionCount,
    /// The size of machine code that is made in this way.
    ObjectTextSize(CodeGeneration),
    Ir2Vec,
    ProgramlJson,
    LexedIr,
    /// The object file of machine code that is made in this way.
    Object(CodeGeneration),
    Inst2VecText,
    Inst2VecIndices,
    Inst2Vec,
    /// The same with the checks of a sanitizer.
    InstrumentedObject(Sanitizer),
    /// The baseline of this name.
    Baseline(&'static str),
    /// The baseline of this name: the size of machine code, as clang -O0 makes it, of the first
    /// state after one of LLVM's own pipelines, if one is named.
    SizeBaseline(&'static str, Option<&'static str>),
}

/// The initial cost.
pub(super) const COUNT_O0: &str = "IrInstructionCountO0";
/// The cost after LLVM's `default<O3>`.
pub(super) const COUNT_O3: &str = "IrInstructionCountO3";
/// The cost after LLVM's `default<Oz>`.
pub(super) const COUNT_OZ: &str = "IrInstructionCountOz";
const COUNT: &str = "IrInstructionCount";
const SIZE: &str = "ObjectTextSizeBytes";
const SIZE_O0: &str = "ObjectTextSizeO0";
const SIZE_O3: &str = "ObjectTextSizeO3";
const SIZE_OZ: &str = "ObjectTextSizeOz";
/// LLVM's own pipelines, by the name of the count after them.
pub(super) const PIPELINES: [(&str, &str); 2] = [(COUNT_O3, PIPELINE_O3), (COUNT_OZ, PIPELINE_OZ)];
const PIPELINE_O3: &str = "default<O3>";
const PIPELINE_OZ: &str = "default<Oz>";
/// The scheme of ids, see `shim/content.cpp`. Scheme 1 hashed parts of a program by XXH3, left the
/// entries of phi nodes in the order of the pass, and took `!llvm.ident` for a part of the program.
pub(super) const STATE_SCHEME: u32 = 2;
/// The observation space that serialises a state.
pub(super) const STATE_SPACE: &str = "State";

/// The observation space of object files.
pub(super) const OBJECT: &str = "Object";

/// Every observation, with its name.
pub(super) const OBSERVATIONS: [(&str, Observation); 30] = [
    ("Ir", Observation::Ir),
    ("Bitcode", Observation::Bitcode),
    ("IrSha1", Observation::IrSha1),
    ("InstCount", Observation::InstCount),
    ("InstCountNorm", Observation::InstCountNorm),
    ("Autophase", Observation::Autophase),
    ("Programl", Observation::Programl),
    (COUNT, Observation::IrInstructionCount),
    (COUNT_O0, Observation::Baseline(COUNT_O0)),
    (COUNT_O3, Observation::Baseline(COUNT_O3)),
    (COUNT_OZ, Observation::Baseline(COUNT_OZ)),
    (SIZE, Observation::ObjectTextSize(CodeGeneration::O0)),
    (SIZE_O0, Observation::SizeBaseline(SIZE_O0, None)),
    (SIZE_O3, Observation::SizeBaseline(SIZE_O3, Some(PIPELINE_O3))),
    (SIZE_OZ, Observation::SizeBaseline(SIZE_OZ, Some(PIPELINE_OZ))),
    ("ObjectTextSizeBytesCodegenOs", Observation::ObjectTextSize(CodeGeneration::Os)),
    ("ObjectTextSizeBytesCodegenOz", Observation::ObjectTextSize(CodeGeneration::Oz)),
    ("IR2Vec", Observation::Ir2Vec),
    ("ProgramlJson", Observation::ProgramlJson),
    ("LexedIr", Observation::LexedIr),
    (OBJECT, Observation::Object(CodeGeneration::O0)),
    ("Inst2vecPreprocessedText", Observation::Inst2VecText),
    ("Inst2vecEmbeddingIndices", Observation::Inst2VecIndices),
    ("Inst2vec", Observation::Inst2Vec),
    ("ObjectAddressSanitizer", Observation::InstrumentedObject(Sanitizer::Address)),
    ("ObjectMemorySanitizer", Observation::InstrumentedObject(Sanitizer::Memory)),
    ("ObjectThreadSanitizer", Observation::InstrumentedObject(Sanitizer::Thread)),
    ("ObjectCodegenOz", Observation::Object(CodeGeneration::Oz)),
    ("ObjectCodegenO3", Observation::Object(CodeGeneration::O3)),
    (STATE_SPACE, Observation::State),
];

/// Returns the observation spaces.
pub(super) fn observation_spaces() -> Vec<ObservationSpace> {
    let space = |(name, observation)| match observation {
        Observation::Ir | Observation::IrSha1 => ObservationSpace::new(name, ValueType::Text),
        Observation::ProgramlJson => ObservationSpace::new(name, ValueType::Text).on_request(),
        Observation::Bitcode | Observation::State => ObservationSpace::new(name, ValueType::Bytes),
        Observation::Object(_) | Observation::InstrumentedObject(_) => {
            ObservationSpace::new(name, ValueType::Bytes).on_request()
        }
        Observation::InstCount => ObservationSpace::int_vector(name, &inst_count_names()),
        Observation::InstCountNorm => {
            ObservationSpace::float_vector(name, inst_count_norm_names()).on_request()
        }
        Observation::Autophase => ObservationSpace::int_vector(name, &autophase_names()),
        Observation::Programl => ObservationSpace::new(name, ValueType::ProgramGraph),
        Observation::IrInstructionCount => ObservationSpace::int(name),
        Observation::ObjectTextSize(_) => ObservationSpace::int(name).on_request(),
        Observation::Ir2Vec => ObservationSpace::float_vector(name, embedding_names()).on_request(),
        Observation::LexedIr => ObservationSpace::new(name, ValueType::Tokens).on_request(),
        Observation::Inst2VecText => ObservationSpace::new(name, ValueType::TextList).on_request(),
        Observation::Inst2VecIndices => {
            ObservationSpace::new(name, ValueType::IntVector).on_request()
        }
        // The rows of a matrix, one after another.
        Observation::Inst2Vec => ObservationSpace::new(name, ValueType::FloatVector).on_request(),
        Observation::Baseline(_) => ObservationSpace::int(name).of_benchmark(),
        Observation::SizeBaseline(..) => ObservationSpace::int(name).of_benchmark().on_request(),
    };
    OBSERVATIONS.into_iter().map(space).collect()
}

/// Returns the reward spaces: the instruction count and the size of machine code, each to
/// CompilerGym's four scales.
pub(super) fn reward_spaces() -> Vec<RewardSpace> {
    [
        (COUNT, Scale::Absolute),
        ("IrInstructionCountNorm", Scale::Initial),
        (COUNT_O3, Scale::Baseline(COUNT_O3.into())),
        (COUNT_OZ, Scale::Baseline(COUNT_OZ.into())),
    ]
    .map(|(name, scale)| reward(name, COUNT, COUNT_O0, scale))
    .into_iter()
    .chain(
        [
            (SIZE, Scale::Absolute),
            ("ObjectTextSizeNorm", Scale::Initial),
            (SIZE_O3, Scale::Baseline(SIZE_O3.into())),
            (SIZE_OZ, Scale::Baseline(SIZE_OZ.into())),
        ]
        .map(|(name, scale)| reward(name, SIZE, SIZE_O0, scale)),
    )
    .collect()
}

fn reward(
    name: &'static str,
    cost: &'static str,
    initial: &'static str,
    scale: Scale,
) -> RewardSpace {
    RewardSpace { name: name.into(), cost: cost.into(), initial: initial.into(), scale }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_committed_space_is_read_and_written_back() {
        for (name, text) in ACTION_SPACES {
            let rows = parse_rows(text).unwrap();
            assert_eq!(format_rows(&rows), text, "{name}");
            let names: HashSet<_> = rows.iter().map(|row| &row.spec.name).collect();
            assert_eq!(names.len(), rows.len(), "{name} has a name twice");
        }
    }

    #[test]
    fn every_action_of_a_measured_space_has_a_cost() {
        let costs = action_costs();
        assert_eq!(costs.len() + 1, ACTION_COSTS.lines().count(), "a pipeline is there twice");
        let spaces = action_spaces();
        let measured = spaces.iter().filter(|space| {
            ["llvm22-v1", "llvm22-all-v0", "llvm22-param-v0"].contains(&space.name.as_str())
        });
        for action in measured.flat_map(|space| &space.actions) {
            let cost = costs.get(&action.pipeline).copied();
            // What always fails costs nothing that could be compared.
            let is_fine = cost.map_or(action.flags.crashes, |cost| cost >= 10);
            assert!(is_fine, "{}: {cost:?}", action.pipeline);
        }
    }

    #[test]
    fn every_reward_that_is_not_on_request_has_the_cost_that_a_session_computes() {
        let is_on_request = |name: &str| {
            observation_spaces().into_iter().any(|space| space.name == name && space.on_request)
        };
        for space in reward_spaces() {
            let is_count = space.cost == COUNT && space.initial == COUNT_O0;
            assert!(is_count || is_on_request(&space.cost), "{space:?}");
        }
    }

    #[test]
    fn the_legacy_space_has_its_124_flags_in_order() {
        let rows = parse_rows(ACTION_SPACES[2].1).unwrap();
        assert_eq!(rows.len(), 124);
        let at = |index: usize| rows[index].spec.name.as_str();
        assert_eq!(
            [at(0), at(10), at(53), at(123)],
            ["-add-discriminators", "-simplifycfg", "-instcombine", "-mergereturn",]
        );
        let idle: Vec<_> = rows.iter().filter(|row| row.spec.pipeline.is_empty()).collect();
        assert_eq!(idle.len(), 7);
        assert!(idle.iter().all(|row| row.note.contains("does nothing")));
    }

    #[test]
    fn the_default_space_is_a_part_of_all_and_unremarkable() {
        let [default, all] = [0, 1].map(|index| parse_rows(ACTION_SPACES[index].1).unwrap());
        for row in &default {
            assert!(all.contains(row), "{}", row.spec.name);
            assert_eq!(row.note, "", "{}: a note says why an action is not here", row.spec.name);
            let ActionFlags { replayable, crashes, slow: _, never_changes } = row.spec.flags;
            assert!(replayable && !crashes && !never_changes, "{}", row.spec.name);
        }
        let pipelines: HashSet<_> = default.iter().map(|row| &row.spec.pipeline).collect();
        assert_eq!(pipelines.len(), default.len(), "a pipeline is there twice");
    }

    #[test]
    fn the_first_default_has_newgvn_more_and_its_other_actions_are_those_of_the_default() {
        let [default, mut first] = [0, 5].map(|index| parse_rows(ACTION_SPACES[index].1).unwrap());
        let newgvn = first.iter().position(|row| row.spec.name == "newgvn").unwrap();
        assert!(!first.remove(newgvn).spec.flags.replayable);
        assert_eq!(first, default);
    }

    #[test]
    fn the_space_of_parameters_begins_with_the_first_default_and_has_no_pipeline_twice() {
        let [first, parameters] = [5, 3].map(|index| parse_rows(ACTION_SPACES[index].1).unwrap());
        assert!(parameters.starts_with(&first));
        let pipelines: HashSet<_> = parameters.iter().map(|row| &row.spec.pipeline).collect();
        assert_eq!(pipelines.len(), parameters.len());
        for row in &parameters[first.len()..] {
            assert!(row.spec.name.contains('<') && row.note.is_empty(), "{}", row.spec.name);
            assert_eq!(row.spec.flags, ActionFlags::UNREMARKABLE, "{}", row.spec.name);
        }
    }

    #[test]
    fn what_is_not_in_the_default_space_says_why() {
        let [default, all] = [0, 1].map(|index| parse_rows(ACTION_SPACES[index].1).unwrap());
        for row in all.iter().filter(|row| !default.contains(row)) {
            assert_ne!(row.note, "", "{}", row.spec.name);
        }
    }

    #[test]
    fn fields_with_commas_and_quotes_survive() {
        let row = ActionRow {
            spec: ActionSpec::new("a", "function(x,y)", ActionFlags::UNREMARKABLE),
            note: "says \"no\", twice".to_owned(),
        };
        assert_eq!(parse_rows(&format_rows(std::slice::from_ref(&row))).unwrap(), [row]);
    }

    #[test]
    fn a_bad_row_is_named_by_its_line() {
        let text = format_rows(&[]) + "a,b,true,perhaps,false,false,\n";
        assert!(parse_rows(&text).unwrap_err().starts_with("line 2 of "));
        assert!(parse_rows("name,pipeline\n").unwrap_err().starts_with("line 1 of "));
    }
}
