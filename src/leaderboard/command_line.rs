//! Command lines read back as actions.

use std::path::Path;

use crate::model::{ActionIndex, ActionSpace, split_option};

/// The beginning of the name of LLVM's optimiser; `opt-22` is one too.
const OPT: &str = "opt";

/// Part of the name of GCC, or of its image.
const GCC: &str = "gcc";

/// Reads a command line as actions. It is one of these:
///
/// - what [`opt_command`](crate::model::opt_command) writes: `opt -passes='…' input.bc -o
///   output.bc`, or a pipe of such calls if some have an option;
/// - a call of `opt` with the flags of LLVM's legacy pass manager, as CompilerGym writes it, if
///   these are the names of the actions;
/// - the names of the actions with spaces between them.
///
/// # Errors
///
/// What cannot be read, in one line.
pub fn actions_of(space: &ActionSpace, line: &str) -> Result<Vec<ActionIndex>, String> {
    if !line.split_whitespace().next().is_some_and(is_opt) {
        return line.split_whitespace().map(|name| named(space, name)).collect();
    }
    let words =
        shell_words::split(line).map_err(|_open| format!("a quote is not closed in `{line}`"))?;
    let mut actions = Vec::new();
    for call in words.split(|word| word == "|") {
        let Some((program, arguments)) = call.split_first().filter(|(first, _)| is_opt(first))
        else {
            return Err("a call between pipes is none of `opt`".to_owned());
        };
        actions.extend(called(space, program, arguments)?);
    }
    Ok(actions)
}

/// Returns the options of a call of GCC, such as `gcc-12 -O2 -fno-gcse -w -c src.c -o obj.o`,
/// without those that name files or say what kind of output there is; none if the line is
/// something else.
pub fn options_of(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    words.next().filter(|word| !word.starts_with('-') && word.contains(GCC))?;
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "-o" => {
                words.next();
            }
            "-w" | "-c" => {}
            _ if word.starts_with('-') => options.push(word),
            _ => {}
        }
    }
    Some(options.join(" "))
}

/// Whether a word of a command line calls LLVM's optimiser.
fn is_opt(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == OPT || name.strip_prefix(OPT).is_some_and(|rest| rest.starts_with('-'))
}

fn named(space: &ActionSpace, name: &str) -> Result<ActionIndex, String> {
    space.index_of(name).ok_or_else(|| format!("`{name}` is no action of {}", space.name))
}

/// The actions of one call of `opt`.
fn called(
    space: &ActionSpace,
    program: &str,
    arguments: &[String],
) -> Result<Vec<ActionIndex>, String> {
    let (mut flags, mut passes, mut option) = (Vec::new(), None, None);
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let value = |name: &str| {
            let long = argument.strip_prefix('-').filter(|rest| rest.starts_with('-'));
            long.unwrap_or(argument).strip_prefix(name)
        };
        if let Some(pipelines) = value("-passes=") {
            if passes.replace(pipelines).is_some() {
                return Err(format!("`{program}` has two pipelines"));
            }
        } else if argument == "-o" {
            arguments.next();
        } else if space.index_of(argument).is_some() {
            flags.push(named(space, argument)?);
        } else if let Some(set) = argument.strip_prefix('-').filter(|rest| rest.contains('=')) {
            if option.replace(set).is_some() {
                return Err(format!("`{program}` has two options, and an action sets one"));
            }
        } else if argument.len() > 1 && argument.starts_with('-') && argument != "-S" {
            return Err(format!("`{argument}` is no action of {}", space.name));
        }
    }
    match passes {
        None if option.is_some() => Err(format!("`{program}` has an option and no passes")),
        None => Ok(flags),
        Some(_) if !flags.is_empty() => {
            Err(format!("`{program}` has a pipeline, and legacy flags too"))
        }
        Some(passes) => pipelines(passes).map(|of| with_pipeline(space, of, option)).collect(),
    }
}

/// Returns the action of a pipeline, with an option if there is one.
fn with_pipeline(
    space: &ActionSpace,
    pipeline: &str,
    option: Option<&str>,
) -> Result<ActionIndex, String> {
    let mut actions = (0..).map(ActionIndex).zip(&space.actions);
    let found = actions.find(|(_, action)| split_option(&action.pipeline) == (option, pipeline));
    found.map(|(index, _)| index).ok_or_else(|| {
        let set = option.map(|option| format!(" with -{option}")).unwrap_or_default();
        format!("`{pipeline}`{set} is the pipeline of no action of {}", space.name)
    })
}

/// Splits pipelines at the commas that are within no brackets.
fn pipelines(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = text.split(move |letter| {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ActionFlags, ActionSpec, opt_command};

    fn space(actions: &[(&str, &str)]) -> ActionSpace {
        let action = |&(name, pipeline): &(&str, &str)| {
            ActionSpec::new(name, pipeline, ActionFlags::UNREMARKABLE)
        };
        ActionSpace { name: "some-v0".to_owned(), actions: actions.iter().map(action).collect() }
    }

    const PASSES: [(&str, &str); 4] = [
        ("gvn", "function(gvn)"),
        ("licm", "function(loop-mssa(licm<allowspeculation,x>))"),
        ("inline", "cgscc(inline)"),
        ("inline<0>", "with<inline-threshold=0>(cgscc(inline))"),
    ];

    fn read(space: &ActionSpace, line: &str) -> Result<Vec<u32>, String> {
        Ok(actions_of(space, line)?.into_iter().map(|index| index.0).collect())
    }

    #[test]
    fn pipelines_are_read_with_the_options_of_their_calls() {
        let space = space(&PASSES);
        let pipelines = PASSES.map(|(_, pipeline)| pipeline);
        let line =
            opt_command([3, 0, 1, 2, 2, 3, 3].into_iter().map(|place: usize| pipelines[place]));
        assert_eq!(line.matches(" | ").count(), 2, "{line}");
        assert_eq!(read(&space, &line), Ok(vec![3, 0, 1, 2, 2, 3, 3]));
        let line = "/usr/bin/opt-22 -S --passes='function(gvn),cgscc(inline)' - -o -";
        assert_eq!(read(&space, line), Ok(vec![0, 2]));
        assert_eq!(read(&space, "opt input.bc -o output.bc"), Ok(vec![]));
    }

    #[test]
    fn legacy_flags_and_names_are_actions_too() {
        let legacy = space(&[("-mem2reg", "function(mem2reg)"), ("-gvn", "function(gvn)")]);
        let line = "opt -gvn -mem2reg -gvn input.bc -o output.bc";
        assert_eq!(read(&legacy, line), Ok(vec![1, 0, 1]));
        let space = space(&PASSES);
        assert_eq!(read(&space, "inline<0>  gvn"), Ok(vec![3, 0]));
        assert_eq!(read(&space, ""), Ok(vec![]));
    }

    #[test]
    fn a_compilers_call_has_options() {
        let line = "gcc-12 -O2 --param=max-slsr-cand-scan=256 -fno-gcse -w -c src.c -o obj.o";
        let options = "-O2 --param=max-slsr-cand-scan=256 -fno-gcse";
        assert_eq!(options_of(line).as_deref(), Some(options));
        assert_eq!(options_of("gcc -w -c src.c -o obj.o").as_deref(), Some(""));
        assert!(options_of("docker:gcc:11.2.0 -O2").is_some());
        for other in ["-O2 -fgcse", "", "recorded in gcc"] {
            assert_eq!(options_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_command_line_is_said() {
        let space = space(&PASSES);
        for (line, said) in [
            ("opt -mem2reg a.bc -o b.bc", "`-mem2reg` is no action of some-v0"),
            ("opt -passes='function(gvn' a.bc", "`function(gvn` is the pipeline of no action"),
            ("opt -passes='default<Oz>' a.bc", "`default<Oz>` is the pipeline of no action"),
            ("opt -passes='a", "a quote is not closed"),
            ("opt a.bc | llc -o b.s", "none of `opt`"),
            ("opt -passes=a -passes=b", "two pipelines"),
            ("gvn nonsense", "`nonsense` is no action of some-v0"),
            (
                "opt -passes='cgscc(inline)' -inline-threshold=3 a.bc",
                "`cgscc(inline)` with -inline-threshold=3 is the pipeline of no action of some-v0",
            ),
            ("opt -passes='cgscc(inline)' -inline-threshold=0 -a=1", "two options"),
            ("opt -inline-threshold=0 a.bc", "an option and no passes"),
        ] {
            let error = read(&space, line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
