//! What comes of a search.

use super::goal::LlvmPipeline;
use crate::model::BenchmarkUri;
use crate::query::{speedup, speedup_interval};

/// The confidence of intervals.
const CONFIDENCE: f64 = 0.95;

/// A sequence that makes a better program than LLVM's own pipelines do.
#[derive(Debug)]
pub struct Improvement {
    /// The names of the actions that make it.
    pub actions: Vec<String>,
    /// How its program was checked.
    pub check: Check,
    /// Whether the commands make the state that the lake has, and not one that differs a little.
    pub(super) is_of_lake: bool,
}

/// How a program was checked by running it.
#[derive(Debug, Default)]
pub struct Check {
    /// Whether the program was run, and does what it does untouched.
    pub is_checked: bool,
    /// What limits the check, or why there is none.
    pub remarks: Vec<String>,
    /// How the program does something else, or how two workers made different programs. A sequence
    /// of which that is true is no result.
    pub difference: Option<String>,
}

/// What the programs that were compared cost.
#[derive(Debug)]
pub enum Comparison {
    /// Instructions or bytes. After `-O3`, a file of C or C++ is not marked.
    Small(Figures),
    /// Wall times.
    Fast(WallTimes),
}

/// What came of a search.
#[derive(Debug)]
pub struct Optimized {
    /// The program as the lake has it: of a file of C or C++, bitcode whose functions are marked as
    /// `clang -Oz` marks them, or for [`Goal::Runtime`](super::Goal::Runtime) as `clang -O3` does.
    pub uri: BenchmarkUri,
    /// What the programs cost.
    pub outcome: Comparison,
    /// What is better than what LLVM's own pipelines make. If there is nothing, the result is that
    /// of `pipeline`.
    pub found: Option<Improvement>,
    /// How the result of `pipeline` was checked, if there is nothing better.
    pub pipeline_check: Check,
    /// `-Oz` or `-O3`: the better one, of a marked file of C or C++ `-Oz`.
    pub pipeline: &'static str,
    /// The compiler with its version, whose tools the commands name.
    pub compiler: String,
    /// The commands of a shell that make the result of the program: its bitcode, and last its
    /// object file.
    pub commands: Vec<String>,
    /// Whether functions of the program are marked as those of `clang -O0`. The commands take the
    /// mark off.
    pub is_optnone: bool,
    /// The result as bitcode.
    pub bitcode: Vec<u8>,
    /// The result as an object file, with the code generation of [`Goal::Size`](super::Goal::Size)
    /// or [`Goal::Runtime`](super::Goal::Runtime).
    pub object: Vec<u8>,
    /// Programs that looked better and do something else: how they differ, one line each.
    pub wrong: Vec<String>,
    /// How many rows of `miscompilations` are new.
    pub miscompilations: usize,
    /// How many sequences were tried.
    pub tried: u64,
    /// Whether somebody interrupted the search: then the result is the best one so far.
    pub is_interrupted: bool,
}

/// What a program costs: instructions, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Untouched.
    pub before: i64,
    /// After `-Oz`.
    pub oz: i64,
    /// After `-O3`.
    pub o3: i64,
    /// After the sequence that was found; none if the result is that of `-Oz` or `-O3`.
    pub after: Option<i64>,
}

impl Figures {
    /// Returns the one of LLVM's own pipelines whose result is smaller, and its cost. That of `-O3`
    /// counts only if it is of `the_same_program` as that of `-Oz`.
    pub(super) fn smaller(self, the_same_program: bool) -> (LlvmPipeline, i64) {
        if the_same_program && self.o3 < self.oz {
            (LlvmPipeline::O3, self.o3)
        } else {
            (LlvmPipeline::Oz, self.oz)
        }
    }
}

/// The wall times of runs in seconds, taken in turns.
#[derive(Debug, Clone, PartialEq)]
pub struct WallTimes {
    /// Of the program untouched.
    pub untouched: Vec<f64>,
    /// After `-Oz`.
    pub oz: Vec<f64>,
    /// After `-O3`.
    pub o3: Vec<f64>,
    /// After the best sequence that is right; none if there is none.
    pub best: Option<Vec<f64>>,
}

/// How many times as fast a program is as another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speedup {
    /// The estimate: that of Hodges and Lehmann.
    pub times: f64,
    /// The interval that contains it with a confidence of 95%.
    pub interval: [f64; 2],
}

impl Speedup {
    /// Compares samples of a program with those of another one, `before`. None if there are too
    /// few, or one is 0.
    pub fn over(before: &[f64], after: &[f64]) -> Option<Self> {
        let (times, interval) =
            (speedup(before, after)?, speedup_interval(before, after, CONFIDENCE)?);
        Some(Self { times, interval })
    }

    /// Whether it is faster, with this confidence.
    pub fn is_sure(self) -> bool {
        self.interval[0] > 1.0
    }
}

impl WallTimes {
    /// Returns the one of LLVM's own pipelines to beat: `-O3`, or `-Oz` if its program is faster,
    /// with a confidence of 95%.
    pub(super) fn pipeline(&self) -> LlvmPipeline {
        let oz = Speedup::over(&self.o3, &self.oz);
        if oz.is_some_and(Speedup::is_sure) { LlvmPipeline::Oz } else { LlvmPipeline::O3 }
    }

    /// Whether the best sequence makes a program that is faster than that of the
    /// [pipeline](Self::pipeline) to beat, with a confidence of 95%.
    pub(super) fn is_beaten(&self) -> bool {
        let own = match self.pipeline() {
            LlvmPipeline::Oz => &self.oz,
            LlvmPipeline::O3 => &self.o3,
        };
        let best = self.best.as_ref().and_then(|best| Speedup::over(own, best));
        best.is_some_and(Speedup::is_sure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_wins_only_if_it_is_surely_faster() {
        let around = |middle: f64| (0..15).map(|place| middle + f64::from(place) * 1e-3).collect();
        let times = |best: f64| WallTimes {
            untouched: around(3.0),
            oz: around(2.0),
            o3: around(1.0),
            best: Some(around(best)),
        };
        assert!(times(0.9).is_beaten());
        for best in [1.0, 0.999, 1.1] {
            assert!(!times(best).is_beaten(), "{best}");
        }
        assert!(!WallTimes { best: None, ..times(0.5) }.is_beaten());
        // Sometimes `-Oz` is the faster one.
        let slow = |best: f64| WallTimes { o3: around(2.5), ..times(best) };
        assert_eq!(
            (times(1.0).pipeline(), slow(1.0).pipeline()),
            (LlvmPipeline::O3, LlvmPipeline::Oz)
        );
        assert!(slow(1.9).is_beaten() && !slow(2.1).is_beaten());
    }
}
