//! The categorical actions: an option with few choices has an action for each; one with many moves
//! up and down in steps.

use super::options::{GccOption, GccOptions};
use steplake_model::{ActionFlags, ActionSpec};

/// An option with fewer choices than this has an action for each of them.
const MANY_CHOICES: i64 = 10;

/// The steps of an option, each with the least number of choices for which there are such steps.
const STEPS: [(i64, i32); 4] = [(MANY_CHOICES, 1), (50, 10), (500, 100), (5000, 1000)];

/// What an action does to the choice of its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChoiceChange {
    /// Makes this choice.
    To(i32),
    /// Moves the choice, within -1 (absent) and the last one.
    By(i32),
}

/// An action on the choice of one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OptionAction {
    /// The place of the option.
    pub(super) option: usize,
    change: ChoiceChange,
}

impl OptionAction {
    /// Returns what the action makes of a choice. `last` is the option's last choice.
    pub(super) fn of(self, choice: i32, last: i32) -> i32 {
        match self.change {
            ChoiceChange::To(choice) => choice,
            ChoiceChange::By(step) => choice.saturating_add(step).clamp(-1, last),
        }
    }

    /// The action's name, which is that of CompilerGym: what a command line says, or the option
    /// with the step.
    fn name(self, option: &GccOption) -> String {
        match self.change {
            ChoiceChange::To(choice) => {
                let mut name = String::new();
                option.write(choice, &mut name);
                name
            }
            ChoiceChange::By(step) => format!("{}[{step:+}]", option.label()),
        }
    }
}

/// Returns the actions of these options, in order.
pub(super) fn actions(options: &GccOptions) -> Vec<OptionAction> {
    let of_option = |(option, one): (usize, &GccOption)| {
        let choices = one.choices();
        let each = (0..=one.last_choice()).take_while(move |_| choices < MANY_CHOICES);
        let steps = STEPS.into_iter().filter(move |&(least, _)| choices >= least);
        let steps = steps.flat_map(|(_, step)| [ChoiceChange::By(step), ChoiceChange::By(-step)]);
        each.map(ChoiceChange::To).chain(steps).map(move |change| OptionAction { option, change })
    };
    options.list().iter().enumerate().flat_map(of_option).collect()
}

/// Returns the description of an action.
pub(super) fn described(options: &GccOptions, action: OptionAction) -> ActionSpec {
    let name = action.name(&options.list()[action.option]);
    ActionSpec::new(name.clone(), name, ActionFlags::UNREMARKABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help::kept;

    fn names(options: &GccOptions) -> Vec<String> {
        actions(options).into_iter().map(|action| described(options, action).name).collect()
    }

    #[test]
    fn there_are_as_many_as_were_counted() {
        let counts = [7, 11, 12].map(|version| names(&kept(version)).len());
        assert_eq!(counts, [663, 2288, 2376]);
        let mut all = names(&kept(12));
        assert_eq!(&all[..3], ["-O0", "-O1", "-O2"]);
        for name in ["-fno-gcse", "-flifetime-dse=2", "--param=max-slsr-cand-scan[-1000]"] {
            assert!(all.iter().any(|known| known == name), "{name}");
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2376, "each name once");
    }

    #[test]
    fn steps_end_at_absence_and_at_the_last_choice() {
        let options = kept(12);
        let called = |name: &str| {
            let place = names(&options).iter().position(|known| known == name).unwrap();
            actions(&options)[place]
        };
        let up = called("--param=max-slsr-cand-scan[+1000]");
        let down = called("--param=max-slsr-cand-scan[-1]");
        let last = options.list()[up.option].last_choice();
        assert_eq!((last, up.of(-1, last), up.of(last - 5, last)), (999_998, 999, last));
        assert_eq!((down.of(0, last), down.of(-1, last)), (-1, -1));
        assert_eq!(up.of(i32::MAX - 1, i32::MAX), i32::MAX);
        assert_eq!(called("-fno-gcse").of(-1, 1), 1);
    }
}
