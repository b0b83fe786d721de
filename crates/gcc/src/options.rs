//! The options of a GCC: what each can be set to, and how a command line writes it.

use std::collections::HashMap;
use std::fmt::Write as _;

/// The most choices of an option: a choice is an `i32`, from 0.
const CHOICES_MAX: i64 = 1 << 31;

/// What an option can be set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValues {
    /// On or, if it has a negative form, off: `-f<name>`, `-fno-<name>`.
    Switch {
        /// Whether there is a form `-fno-<name>`.
        has_negative: bool,
    },
    /// One of these words: `-f<name>=<word>`.
    Words(Vec<String>),
    /// A number from `min` to `max`: `-f<name>=<number>`.
    Range {
        /// The smallest number.
        min: i64,
        /// The largest number.
        max: i64,
    },
}

/// The family of an option, which decides how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionFamily {
    /// The level of optimisation: `-O<word>`.
    Level,
    /// `-f<name>`.
    Flag,
    /// `--param=<name>=<value>`.
    Parameter,
}

/// An option of the compiler: a list of choices, of which a command line has one or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GccOption {
    /// The family.
    pub family: OptionFamily,
    /// The name, without what precedes it on a command line; empty for the level.
    pub name: String,
    /// What it can be set to.
    pub values: OptionValues,
}

impl GccOption {
    /// Returns the number of choices, at least one.
    pub fn choices(&self) -> i64 {
        match &self.values {
            OptionValues::Switch { has_negative } => 1 + i64::from(*has_negative),
            OptionValues::Words(words) => i64::try_from(words.len()).unwrap_or(CHOICES_MAX),
            OptionValues::Range { min, max } => (max - min + 1).min(CHOICES_MAX),
        }
    }

    /// Returns the last choice; the first one is 0.
    pub fn last_choice(&self) -> i32 {
        i32::try_from(self.choices() - 1).unwrap_or(i32::MAX)
    }

    /// Returns the option as a command line begins it: `-O`, `-fgcse`, `--param=avg-loop-niter`.
    pub fn label(&self) -> String {
        let before = match self.family {
            OptionFamily::Level => "-O",
            OptionFamily::Flag => "-f",
            OptionFamily::Parameter => "--param=",
        };
        format!("{before}{}", self.name)
    }

    /// Appends a choice as a command line writes it.
    ///
    /// # Panics
    ///
    /// If there is no such choice.
    pub fn write(&self, choice: i32, text: &mut String) {
        text.push_str(match (self.family, &self.values) {
            (OptionFamily::Level, _) => "-O",
            (OptionFamily::Parameter, _) => "--param=",
            (OptionFamily::Flag, OptionValues::Switch { .. }) if choice == 1 => "-fno-",
            (OptionFamily::Flag, _) => "-f",
        });
        text.push_str(&self.name);
        match &self.values {
            OptionValues::Switch { .. } => {}
            OptionValues::Words(words) => {
                if self.family != OptionFamily::Level {
                    text.push('=');
                }
                let place = usize::try_from(choice).expect("a choice is not negative");
                text.push_str(&words[place]);
            }
            OptionValues::Range { min, .. } => {
                write!(text, "={}", min + i64::from(choice)).expect("a string takes it");
            }
        }
    }

    /// Returns the choice that a command line writes as the label followed by `rest`.
    fn choice(&self, rest: &str) -> Option<i32> {
        let place = match &self.values {
            OptionValues::Switch { .. } => rest.is_empty().then_some(0),
            OptionValues::Words(words) => {
                let word =
                    if self.family == OptionFamily::Level { rest } else { rest.strip_prefix('=')? };
                words.iter().position(|known| known == word).and_then(|at| i64::try_from(at).ok())
            }
            OptionValues::Range { min, .. } => {
                Some(rest.strip_prefix('=')?.parse::<i64>().ok()?.checked_sub(*min)?)
            }
        };
        place.filter(|place| (0..self.choices()).contains(place)).and_then(|at| at.try_into().ok())
    }
}

/// All options of a GCC, in their order: the level, the flags by name, then the parameters by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GccOptions {
    list: Vec<GccOption>,
    by_label: HashMap<String, usize>,
}

impl GccOptions {
    /// Takes a list of options, each once.
    pub(super) fn new(list: Vec<GccOption>) -> Self {
        let by_label = list.iter().enumerate().map(|(at, option)| (option.label(), at)).collect();
        Self { list, by_label }
    }

    /// Returns the options in their order.
    pub fn list(&self) -> &[GccOption] {
        &self.list
    }

    /// Returns the place of the option that a command line writes as `text`, and the choice.
    pub fn parse(&self, text: &str) -> Option<(usize, i32)> {
        if let Some(level) = text.strip_prefix("-O") {
            let &at = self.by_label.get("-O")?;
            return Some((at, self.list[at].choice(level)?));
        }
        let name_start = if text.starts_with("--param=") { "--param=".len() } else { 0 };
        let equals = text[name_start..].find('=').map_or(text.len(), |at| name_start + at);
        let (label, rest) = text.split_at(equals);
        if let Some(&at) = self.by_label.get(label) {
            return Some((at, self.list[at].choice(rest)?));
        }
        let positive = format!("-f{}", label.strip_prefix("-fno-")?);
        let &at = self.by_label.get(&positive)?;
        let negated = matches!(self.list[at].values, OptionValues::Switch { has_negative: true });
        (negated && rest.is_empty()).then_some((at, 1))
    }
}
