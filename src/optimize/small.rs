//! The smallest program that a search found.

use std::path::Path;

use super::goal::{Goal, LlvmPipeline};
use super::input_program::{InputProgram, Wrong};
use super::maker::{CompiledProgram, Maker};
use super::result::{Check, Comparison, Figures, Improvement, Optimized};
use crate::datasets::text_size;
use crate::model::{ActionIndex, Benchmark};
use crate::semantics::Validator;
use crate::{Error, ErrorKind};

/// What LLVM's own pipelines make of the program.
pub(super) struct Levels {
    pub(super) figures: Figures,
    oz: CompiledProgram,
    o3: CompiledProgram,
}

impl InputProgram {
    /// Makes what LLVM's own pipelines make of the program, and returns what it costs. `named` is
    /// the program that the user has named, whose functions may have other marks.
    pub(super) fn levels(&self, maker: &Maker, named: &Benchmark) -> Result<Levels, Error> {
        let (mut before, _) = self.start(named, &self.space)?;
        let (oz, o3) = (maker.level(LlvmPipeline::Oz)?, maker.level(LlvmPipeline::O3)?);
        let figures = Figures {
            before: self.number(before.as_mut(), self.goal.cost())?,
            oz: self.cost_of(maker, &oz)?.map_err(|why| unmade(&why))?,
            o3: self.cost_of(maker, &o3)?.map_err(|why| unmade(&why))?,
            after: None,
        };
        Ok(Levels { figures, oz, o3 })
    }

    /// Returns what a result costs. The inner error says why it has no object file.
    fn cost_of(&self, maker: &Maker, made: &CompiledProgram) -> Result<Result<i64, String>, Error> {
        match self.goal {
            Goal::Size => match maker.object(made)? {
                Ok(object) => Ok(Ok(text_size(&object)?)),
                Err(why) => Ok(Err(why)),
            },
            Goal::Ir | Goal::Runtime => {
                let (mut session, _) = self.start_made(made)?;
                Ok(Ok(self.number(session.as_mut(), self.goal.cost())?))
            }
        }
    }

    /// Returns the first sequence, the best first, that is right and smaller than what LLVM's own
    /// pipelines make, or else the result of those. `is_marked` says that the program that the user
    /// has named has other marks. What miscompiles the program becomes rows of the lake.
    pub(super) fn smallest(
        &self,
        lake: &Path,
        maker: &Maker,
        levels: &Levels,
        is_marked: bool,
        sequences: &[Vec<ActionIndex>],
    ) -> Result<Optimized, Error> {
        let (figures, mut wrong) = (levels.figures, Wrong::default());
        let (pipeline, bar) = figures.smaller(!is_marked);
        let mut validator = self.validator()?;
        let found = self.below(bar, maker, sequences, &mut validator, &mut wrong)?;
        let done = if let Some((after, found, made)) = found {
            let outcome = Comparison::Small(Figures { after: Some(after), ..figures });
            let what = (Some(found), LlvmPipeline::Oz, Check::default());
            self.optimized(maker, outcome, what, &made, wrong.lines())?
        } else {
            let made = if pipeline == LlvmPipeline::Oz { &levels.oz } else { &levels.o3 };
            let what = (None, pipeline, self.check_pipeline(made, &mut validator)?);
            self.optimized(maker, Comparison::Small(figures), what, made, wrong.lines())?
        };
        Ok(Optimized { miscompilations: Self::note_findings(lake, validator), ..done })
    }

    /// Checks sequences until one is right and costs less than `bar`. Returns its cost too.
    fn below(
        &self,
        bar: i64,
        maker: &Maker,
        sequences: &[Vec<ActionIndex>],
        validator: &mut Validator<'_>,
        wrong: &mut Wrong,
    ) -> Result<Option<(i64, Improvement, CompiledProgram)>, Error> {
        for actions in sequences {
            if wrong.excludes(actions) {
                continue;
            }
            let Some(mut played) = self.play(actions)? else { continue };
            if self.number(played.session.as_mut(), self.goal.cost())? >= bar {
                break;
            }
            let made = match self.made(maker, &played)? {
                Ok(made) => made,
                Err(why) => {
                    wrong.note(actions.clone(), format!("`opt` fails: {why}"));
                    continue;
                }
            };
            let after = match self.cost_of(maker, &made)? {
                // What its commands make is larger than its state, now and then.
                Ok(after) if after >= bar => continue,
                Ok(after) => after,
                Err(why) => {
                    wrong.note(actions.clone(), format!("`llc` fails: {why}"));
                    continue;
                }
            };
            let both = (&played, &made);
            if let Some(found) = self.check(maker, actions, both, validator, wrong)? {
                return Ok(Some((after, found, made)));
            }
        }
        Ok(None)
    }
}

/// Says that LLVM's own tools fail on what LLVM's own pipelines make.
fn unmade(why: &str) -> Error {
    Error::new(ErrorKind::Failed, format!("no object file can be made: {why}"))
}
