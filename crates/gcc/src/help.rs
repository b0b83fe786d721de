//! Reads the options of a GCC from its own help: `--help=optimize -Q` and `--help=param -Q`.
//!
//! GCC 10 and newer write `--param=name=<min,max> default`; older ones write `name default N
//! minimum N maximum N`. The result is that of CompilerGym's reader, so that a list of choices
//! means the same, except where GCC rejects what that reader makes:
//!
//! - `<number>` ends at 2³¹ − 1.
//! - `-fhandle-exceptions` keeps its name, under which GCC takes it for `-fexceptions`: two options
//!   of one name could not be told apart.

use std::collections::BTreeMap;

use super::options::{GccOption, GccOptions, OptionFamily, OptionValues};

/// The largest number where the help gives no limit.
const NUMBER_MAX: i64 = (1 << 31) - 1;

/// Parameters whose help allows -1, which the compiler refuses.
const NOT_NEGATIVE: [&str; 4] = [
    "logical-op-non-short-circuit",
    "prefetch-minimum-stride",
    "sched-autopref-queue-depth",
    "vect-max-peeling-for-alignment",
];

/// Flags that the help lists with a negative form which the compiler does not have.
const WITHOUT_NEGATIVE: [&str; 3] =
    ["stack-protector-all", "stack-protector-explicit", "stack-protector-strong"];

/// Reads the options from the two texts of help.
pub(super) fn options(optimize: &str, param: &str) -> GccOptions {
    let mut options = Vec::new();
    let (levels, flags) = optimization(optimize);
    if !levels.is_empty() {
        let (family, name, values) =
            (OptionFamily::Level, String::new(), OptionValues::Words(levels));
        options.push(GccOption { family, name, values });
    }
    for (listed, values) in flags {
        // The help lists this one in its negative form.
        let name = listed.strip_prefix("no-").unwrap_or(&listed).to_owned();
        options.push(GccOption { family: OptionFamily::Flag, name, values });
    }
    for (name, values) in parameters(param) {
        options.push(GccOption { family: OptionFamily::Parameter, name, values });
    }
    GccOptions::new(options)
}

/// The words of `-O`, and the flags by the names that the help gives them.
fn optimization(help: &str) -> (Vec<String>, BTreeMap<String, OptionValues>) {
    let (mut levels, mut flags) = (Vec::new(), BTreeMap::new());
    for spec in help.lines().skip(1).filter_map(|line| line.split_whitespace().next()) {
        if spec == "-O<number>" {
            levels.extend(["0", "1", "2", "3"].map(str::to_owned));
        } else if let Some(level) = spec.strip_prefix("-O") {
            levels.push(level.to_owned());
        } else if let Some(flag) = spec.strip_prefix("-f") {
            let (name, value) = flag.split_once('=').map_or((flag, None), |(n, v)| (n, Some(v)));
            match value.map(|value| valued(name, value)) {
                // A switch gives way to whatever else has its name.
                None => {
                    let has_negative = !WITHOUT_NEGATIVE.contains(&name);
                    flags.entry(name.to_owned()).or_insert(OptionValues::Switch { has_negative });
                }
                Some(Some(values)) => drop(flags.insert(name.to_owned(), values)),
                Some(None) => {}
            }
        }
    }
    flags.remove("live-patching");
    (levels, flags)
}

/// What stands behind the equals sign of a flag; none if it says nothing of use.
fn valued(name: &str, value: &str) -> Option<OptionValues> {
    match value {
        // An alignment takes up to four numbers, which no list of choices holds.
        "" if name.starts_with("align-") => Some(OptionValues::Switch { has_negative: false }),
        // Only small powers of two are accepted.
        "<number>" if name == "pack-struct" => {
            Some(OptionValues::Words([1, 2, 4, 8, 16].map(|bytes: i32| bytes.to_string()).to_vec()))
        }
        "<number>" => Some(OptionValues::Range { min: 0, max: NUMBER_MAX }),
        _ => words(value).or_else(|| range(value)),
    }
}

/// Reads `[one|two]`. A list in which there is a number among the words is left out.
fn words(value: &str) -> Option<OptionValues> {
    let list = value.strip_prefix('[')?.strip_suffix(']')?;
    let is_word = |c: char| c.is_ascii_alphabetic() || "-_|".contains(c);
    list.chars()
        .all(is_word)
        .then(|| OptionValues::Words(list.split('|').map(str::to_owned).collect()))
}

/// Reads `<min,max>`.
fn range(value: &str) -> Option<OptionValues> {
    let (min, max) = value.strip_prefix('<')?.strip_suffix('>')?.split_once(',')?;
    Some(OptionValues::Range { min: min.parse().ok()?, max: max.parse().ok()? })
}

fn parameters(help: &str) -> BTreeMap<String, OptionValues> {
    let lines = help.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let read = lines.filter_map(|words| match words.as_slice() {
        [spec, default, ..] if spec.starts_with("--param=") => {
            let (name, value) = spec["--param=".len()..].split_once('=')?;
            Some((name.to_owned(), parameter(value, default)?))
        }
        [name, "default", default, "minimum", min, "maximum", max] => {
            let [default, min, max] = [default, min, max].map(|number| number.parse::<i64>().ok());
            // A maximum of 0 seems to mean that there is none: only full descriptions count.
            let is_full = (min? <= default?) && (default? <= max?);
            Some(((*name).to_owned(), OptionValues::Range { min: min?, max: max? }))
                .filter(|_| is_full)
        }
        _ => None,
    });
    read.map(|(name, values)| match values {
        OptionValues::Range { max, .. } if NOT_NEGATIVE.contains(&name.as_str()) => {
            (name, OptionValues::Range { min: 0, max })
        }
        _ => (name, values),
    })
    .collect()
}

/// What stands behind the name of a parameter in the new format. Without a number as default, it is
/// a word that the help does not list, or a parameter of another language.
fn parameter(value: &str, default: &str) -> Option<OptionValues> {
    let default = default.parse::<i64>();
    match value {
        "" => Some(OptionValues::Range { min: default.ok()?.min(0), max: NUMBER_MAX }),
        _ => words(value).or_else(|| range(value).filter(|_| default.is_ok())),
    }
}

/// Returns the options of a version whose help is kept: 7, 11 or 12.
#[cfg(test)]
pub(super) fn kept(version: u32) -> GccOptions {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/gcc");
    let [optimize, param] = ["optimize", "param"]
        .map(|what| std::fs::read_to_string(format!("{folder}/gcc-{version}.{what}.txt")).unwrap());
    options(&optimize, &param)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of flags and parameters, the words of `-O`, and the digits of the size of the
    /// space: an option is absent or set to one of its choices.
    fn summary(options: &GccOptions) -> (usize, usize, String, i64) {
        let list = options.list();
        let count = |family| list.iter().filter(|option| option.family == family).count();
        let OptionValues::Words(levels) = &list[0].values else { panic!("levels come first") };
        #[expect(clippy::cast_precision_loss, reason = "a power of ten")]
        let digits: f64 = list.iter().map(|option| (option.choices() as f64 + 1.0).log10()).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a power of ten")]
        let digits = digits as i64;
        (count(OptionFamily::Flag), count(OptionFamily::Parameter), levels.join(" "), digits)
    }

    #[test]
    fn the_options_of_three_versions_are_those_that_were_counted() {
        assert_eq!(summary(&kept(12)), (246, 273, "0 1 2 3 fast g s z".to_owned(), 2020));
        assert_eq!(summary(&kept(11)), (241, 261, "0 1 2 3 fast g s".to_owned(), 1946));
        let (flags, parameters, levels, _) = summary(&kept(7));
        assert_eq!((flags, parameters, levels.as_str()), (222, 57, "0 1 2 3 fast g s"));
    }

    #[test]
    fn what_a_command_line_writes_is_read_back() {
        let mut labels = std::collections::BTreeSet::new();
        for options in [kept(7), kept(11), kept(12)] {
            labels.clear();
            for (at, option) in options.list().iter().enumerate() {
                assert!(labels.insert(option.label()), "{} is there twice", option.label());
                let last = option.last_choice();
                for choice in [0, 1.min(last), last / 2, last] {
                    let mut text = String::new();
                    option.write(choice, &mut text);
                    assert_eq!(options.parse(&text), Some((at, choice)), "{text}");
                }
            }
        }
    }

    #[test]
    fn the_special_cases_are_as_described() {
        let options = kept(12);
        let written = |text: &str| options.parse(text).is_some();
        for text in [
            "-O3",
            "-Oz",
            "-fgcse",
            "-fno-gcse",
            "-fstack-protector-all",
            "-fthreadsafe-statics",
            "-fno-threadsafe-statics",
            "-fpack-struct=16",
            "-falign-loops",
            "-fhandle-exceptions",
            "-flifetime-dse=2",
            "-fsched-stalled-insns=2147483647",
            "-fira-region=mixed",
            "--param=vect-max-peeling-for-alignment=64",
            "--param=parloops-schedule=guided",
        ] {
            assert!(written(text), "{text}");
        }
        for text in [
            "",
            "-O",
            "-O4",
            "-f",
            "-fno-",
            "-fgcse=1",
            "-fno-stack-protector-all",
            "-fpack-struct",
            "-fpack-struct=3",
            "-fno-align-loops",
            "-flive-patching",
            "-flifetime-dse=3",
            "-fsched-stalled-insns=2147483648",
            "-fno-ira-region=one",
            "--param=nothing=1",
            "--param=vect-max-peeling-for-alignment=-1",
            "-fpatchable-function-entry=1",
        ] {
            assert!(!written(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_help_has_no_options() {
        for text in ["", "\n", "gcc: error\nno such option\n", "x\n--param=\n-f\n-O\n"] {
            let found = options(text, text);
            assert!(found.list().len() <= 2, "{text}: {found:?}");
        }
    }
}
