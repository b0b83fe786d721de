//! The smallest program that a search found.

use super::goal::Level;
use super::result::{Figures, Optimized, Outcome};
use super::subject::{Subject, Wrong};
use crate::assembly::command_error::CommandError;
use crate::env::SessionError;
use crate::model::{ActionIndex, Benchmark};

impl Subject {
    /// Returns what the program costs in the observation space `cost`. `named` is the program that
    /// the user has named, whose functions may have other marks.
    pub(super) fn figures(&self, cost: &str, named: &Benchmark) -> Result<Figures, CommandError> {
        let (mut before, _) = self.start(named, &self.space)?;
        let [mut oz, mut o3] =
            [self.after(&self.benchmark, Level::Oz)?, self.after(named, Level::O3)?];
        let cost_of = |session| -> Result<i64, SessionError> { self.number(session, cost) };
        Ok(Figures {
            before: cost_of(before.as_mut())?,
            oz: cost_of(oz.as_mut())?,
            o3: cost_of(o3.as_mut())?,
            after: None,
        })
    }

    /// Checks sequences, the best first, and returns the first one that is right and smaller than
    /// what LLVM's own pipelines make. `is_marked` says that the program that the user has named
    /// has other marks.
    pub(super) fn smallest(
        &self,
        cost: &str,
        figures: Figures,
        is_marked: bool,
        sequences: &[Vec<ActionIndex>],
    ) -> Result<Optimized, CommandError> {
        let (pipeline, bar) = figures.smaller(!is_marked);
        let mut wrong = Wrong::default();
        for actions in sequences {
            if wrong.excludes(actions) {
                continue;
            }
            let Some(mut played) = self.play(actions)? else { continue };
            let after = self.number(played.session.as_mut(), cost)?;
            if after >= bar {
                break;
            }
            if let Some(found) = self.check(actions, &played, &mut wrong)? {
                let outcome = Outcome::Small(Figures { after: Some(after), ..figures });
                return self.of_sequence(outcome, found, &mut played, wrong.lines());
            }
        }
        self.of_pipeline(Outcome::Small(figures), pipeline, wrong.lines())
    }
}
