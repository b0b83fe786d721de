//! The parts of a split: what is wanted, and what became of the rows.

use std::fmt::Write as _;

use crate::dataset::TrainingDataset;
use crate::error::LoadError;

/// How far the share of a part may be from the wanted one, as a part of that: where groups that
/// share states stay together, and before somebody is told.
pub(crate) const TOLERANCE: f64 = 0.5;

steplake_model::named! {
    /// What is never divided between the parts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SplitBy {
        /// A program family; programs of an unknown family are families of their own.
        Family = "family",
        /// A program.
        Benchmark = "program",
        /// A row: what leaks. It is there to be compared with.
        Row = "row",
    }

    /// The name: `family`, `program` or `row`.
    fn name;
}

impl SplitBy {
    /// What has this name. `benchmark` is another one for `program`.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_wanted = |by: &Self| match by {
            Self::Benchmark => matches!(name, "program" | "benchmark"),
            Self::Family | Self::Row => by.name() == name,
        };
        Self::ALL.into_iter().find(is_wanted)
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Family => "families",
            Self::Benchmark => "programs",
            Self::Row => "rows",
        }
    }
}

steplake_model::named! {
    /// A part of a split.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum SplitPart {
        Train = "train",
        Validation = "validation",
        Test = "test",
    }

    fn name;
}

/// What a split is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SplitRequest {
    /// What is never divided.
    pub by: SplitBy,
    /// The share of test rows, between 0 and 1.
    pub test_size: f64,
    /// The share of validation rows; 0 for no such part. Both shares together are below 1.
    pub validation_size: f64,
    /// Fixes which groups are of which part.
    pub seed: u64,
}

impl SplitRequest {
    /// The wanted share of a part.
    pub(crate) fn share(self, part: SplitPart) -> f64 {
        match part {
            SplitPart::Train => 1.0 - self.test_size - self.validation_size,
            SplitPart::Validation => self.validation_size,
            SplitPart::Test => self.test_size,
        }
    }

    /// The parts that there are to be, in their order.
    pub(crate) fn parts(self) -> impl Iterator<Item = SplitPart> {
        SplitPart::ALL.into_iter().filter(move |&part| self.share(part) > 0.0)
    }
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SplitReport {
    /// Training rows.
    pub train_rows: usize,
    /// Validation rows.
    pub validation_rows: usize,
    /// Test rows.
    pub test_rows: usize,
    /// Rows of no part: those that lead from a state of one part to a state of another, and those
    /// of states that no recorded transition leads to.
    pub purged_rows: usize,
    /// Groups for training.
    pub train_groups: usize,
    /// Groups for validation.
    pub validation_groups: usize,
    /// Groups for test.
    pub test_groups: usize,
    /// Groups of states that are tied together by shared states.
    pub components: usize,
    /// States that programs of several parts reach.
    pub shared_states: usize,
    /// The rows of the group that has the most; a row of several groups counts for one of them.
    pub largest_group_rows: u64,
}

impl SplitReport {
    pub(crate) fn rows(&self, part: SplitPart) -> usize {
        match part {
            SplitPart::Train => self.train_rows,
            SplitPart::Validation => self.validation_rows,
            SplitPart::Test => self.test_rows,
        }
    }

    fn groups(&self, part: SplitPart) -> usize {
        match part {
            SplitPart::Train => self.train_groups,
            SplitPart::Validation => self.validation_groups,
            SplitPart::Test => self.test_groups,
        }
    }

    /// What there is to say of parts that are far from what was wanted: their sizes, the reason,
    /// and what divides more finely.
    pub fn warning(&self, request: SplitRequest) -> Option<String> {
        let all =
            SplitPart::ALL.map(|part| self.rows(part)).iter().sum::<usize>() + self.purged_rows;
        let is_far = |part| {
            let (found, wanted) = (share(self.rows(part), all), request.share(part));
            (found - wanted).abs() > TOLERANCE * wanted
        };
        if !request.parts().any(is_far) {
            return None;
        }
        let size = |part: SplitPart| {
            let (rows, wanted) = (self.rows(part), 100.0 * request.share(part));
            let found = 100.0 * share(rows, all);
            format!("{} has {rows} rows ({found:.1}% and not {wanted:.0}%)", part.name())
        };
        let mut text = request.parts().map(size).collect::<Vec<_>>().join(", ");
        if self.purged_rows > 0 {
            let _ = write!(text, ", {} rows are left out", self.purged_rows);
        }
        if request.by != SplitBy::Row {
            let groups: usize = SplitPart::ALL.map(|part| self.groups(part)).iter().sum();
            let (name, largest) = (request.by.plural(), self.largest_group_rows);
            let _ = write!(text, "; there are {groups} {name}, the largest with {largest} rows");
        }
        text.push_str(match request.by {
            SplitBy::Family => "; splitting by program divides the programs of a family",
            SplitBy::Benchmark => "; record more programs, or give another share",
            SplitBy::Row => "; record more, or give another share",
        });
        Some(text)
    }

    /// The error about a split whose part `empty` has none of the `rows`: `groups` is how many
    /// groups have rows.
    pub(crate) fn refusal(
        &self,
        empty: SplitPart,
        rows: usize,
        request: SplitRequest,
        groups: usize,
    ) -> LoadError {
        let by = request.by;
        let wanted = |part: SplitPart| {
            // What the other shares leave for training is not exact.
            let share = (request.share(part) * 1e6).round() / 1e6;
            format!("a share of {share} for {}", part.name())
        };
        let without_groups = request.parts().find(|&part| self.groups(part) == 0);
        let problem = match by {
            _ if rows == 0 => "there are none".to_owned(),
            SplitBy::Row => format!("{rows} are too few for {}", wanted(empty)),
            SplitBy::Family | SplitBy::Benchmark if groups == 0 => {
                "no recorded transition leads to their states; is the lake deduplicated?".to_owned()
            }
            SplitBy::Family if groups == 1 => {
                format!("all {rows} are of one family; splitting by program divides its programs")
            }
            SplitBy::Benchmark if groups == 1 => {
                format!(
                    "all {rows} are of one program; record more programs, or split by row, \
                    which leaks"
                )
            }
            SplitBy::Family | SplitBy::Benchmark => match without_groups {
                Some(part) => {
                    let finer = match by {
                        SplitBy::Family => {
                            ", or split by program, which divides the programs of a family"
                        }
                        SplitBy::Benchmark | SplitBy::Row => "",
                    };
                    let (name, largest) = (by.plural(), self.largest_group_rows);
                    let wanted = wanted(part);
                    format!(
                        "{rows} are of {groups} {name}, the largest with {largest}, of which \
                         {wanted} is none or all; give a share such as 0.5{finer}"
                    )
                }
                None => format!(
                    "the programs for {} reach none but states of another part, or no rows at \
                     all; give another seed or share",
                    empty.name()
                ),
            },
        };
        LoadError::NoSplit { by: by.name(), problem }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn share(rows: usize, all: usize) -> f64 {
    rows as f64 / all.max(1) as f64
}

/// A dataset in two or three parts.
#[derive(Debug, Clone)]
pub struct Split {
    /// The training rows.
    pub train: TrainingDataset,
    /// The validation rows, if such a part was wanted.
    pub validation: Option<TrainingDataset>,
    /// The test rows.
    pub test: TrainingDataset,
    /// What became of the rows.
    pub report: SplitReport,
}

impl Split {
    /// The parts with their names, in their order.
    pub fn parts(&self) -> Vec<(&'static str, &TrainingDataset)> {
        let validation = self.validation.as_ref().map(|rows| (SplitPart::Validation.name(), rows));
        let (train, test) =
            ((SplitPart::Train.name(), &self.train), (SplitPart::Test.name(), &self.test));
        [Some(train), validation, Some(test)].into_iter().flatten().collect()
    }
}
