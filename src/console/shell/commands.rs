//! The shell's own commands and their arguments.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;
use crate::console::arguments::named_value;
use crate::query::Format;

/// A parsed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MetaCommand {
    Help,
    Describe(Option<String>),
    Functions(Option<String>),
    Queries(Option<String>),
    Query(String, Vec<(String, String)>),
    Snapshot(Option<i64>),
    Refresh,
    Timing(Option<bool>),
    Expanded(Option<bool>),
    Format(Option<Format>),
    Output(Option<PathBuf>),
    Include(PathBuf),
    Quit,
}

/// All commands, in the order of `\?`: name, arguments, effect.
pub(super) const COMMANDS: [(&str, &str, &str); 14] = [
    ("\\d", "[NAME]", "the tables and views, or the columns of one and what they mean"),
    ("\\df", "[PATTERN]", "the functions, or those with PATTERN in their names"),
    ("\\l", "[NAME]", "the named queries, or one with its parameters and its text"),
    ("\\query", "NAME [K=V …]", "ask a named query"),
    ("\\snapshot", "[N]", "list the snapshots, or read snapshot N"),
    ("\\refresh", "", "read all that the lake holds now"),
    ("\\x", "[on|off]", "one line for each value instead of a table"),
    ("\\format", "[FORMAT]", "table, expanded, csv, json, arrow or parquet"),
    ("\\o", "[FILE]", "write answers to FILE; without it, to the screen again"),
    ("\\i", "FILE", "answer the statements of a file"),
    ("\\timing", "[on|off]", "say how long each answer took"),
    ("\\?", "", "this list"),
    ("\\q", "", "leave, as Ctrl-D does"),
    ("\\quit", "", "the same"),
];

/// Returns the text of `\?`.
pub(super) fn help() -> String {
    let mut text = "A statement ends with a semicolon and may have many lines. Ctrl-C ends a question or clears \
                    the line,\nTab completes names, Ctrl-R searches the history.\n\n"
        .to_owned();
    for (name, arguments, about) in COMMANDS {
        let called = format!("{name} {arguments}");
        let _ = writeln!(text, "  {called:<24} {about}");
    }
    text
}

impl FromStr for MetaCommand {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self, Error> {
        // A semicolon at the end is a harmless habit.
        let line = line.trim().trim_end_matches(';');
        let name = line.split_whitespace().next().unwrap_or_default();
        let mut arguments = split(line[name.len()..].trim())
            .map_err(|problem| Error::usage(format!("`{name}`: {problem}")))?;
        let wrong =
            |problem: &str| Error::usage(format!("`{name}` {problem}: `\\?` lists the commands"));
        // Nothing toggles.
        let switch = |argument: Option<&str>| match argument {
            None => Ok(None),
            Some("on") => Ok(Some(true)),
            Some("off") => Ok(Some(false)),
            Some(other) => Err(wrong(&format!("is on or off, not `{other}`"))),
        };
        if name == "\\query" {
            if arguments.is_empty() {
                return Err(wrong("needs the name of a query (`\\l` lists them)"));
            }
            let query = arguments.remove(0);
            let values = arguments.iter().map(|text| named_value("", text));
            return Ok(Self::Query(query, values.collect::<Result<_, _>>()?));
        }
        if arguments.len() > 1 {
            return Err(wrong("takes one argument at most (quote one with spaces)"));
        }
        let argument = arguments.pop();
        let command = match (name, argument) {
            ("\\?" | "\\h" | "\\help", None) => Self::Help,
            ("\\d" | "\\dt" | "\\d+", name) => Self::Describe(name),
            ("\\df", pattern) => Self::Functions(pattern),
            ("\\l", name) => Self::Queries(name),
            ("\\snapshot", None) => Self::Snapshot(None),
            ("\\snapshot", Some(number)) => match number.parse() {
                Ok(number) => Self::Snapshot(Some(number)),
                Err(_) => return Err(wrong(&format!("needs a number, not `{number}`"))),
            },
            ("\\refresh", None) => Self::Refresh,
            ("\\timing", argument) => Self::Timing(switch(argument.as_deref())?),
            ("\\x", argument) => Self::Expanded(switch(argument.as_deref())?),
            ("\\format", None) => Self::Format(None),
            ("\\format", Some(format)) => Self::Format(Some(format.parse().map_err(Error::usage)?)),
            ("\\o", path) => Self::Output(path.map(PathBuf::from)),
            ("\\i", Some(path)) => Self::Include(path.into()),
            ("\\i", None) => return Err(wrong("needs a file")),
            ("\\q" | "\\quit", None) => Self::Quit,
            (known, Some(_)) if COMMANDS.iter().any(|command| command.0 == known) => {
                return Err(wrong("takes no argument"));
            }
            _ => return Err(wrong("is not a command")),
        };
        Ok(command)
    }
}

/// Splits words at spaces, except in single or double quotes and after a backslash.
fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_what_they_take() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (line, wanted) in [
            ("\\?", MetaCommand::Help),
            ("\\d", MetaCommand::Describe(None)),
            ("\\d steps;", MetaCommand::Describe(Some("steps".into()))),
            ("\\df state", MetaCommand::Functions(Some("state".into()))),
            ("\\query unstable", MetaCommand::Query("unstable".into(), vec![])),
            (
                "\\query path_to state='a b' tries=2",
                MetaCommand::Query(
                    "path_to".into(),
                    vec![pair("state", "a b"), pair("tries", "2")],
                ),
            ),
            ("\\snapshot 3", MetaCommand::Snapshot(Some(3))),
            ("\\x", MetaCommand::Expanded(None)),
            ("\\timing off", MetaCommand::Timing(Some(false))),
            ("\\format json", MetaCommand::Format(Some(Format::Json))),
            ("\\o 'my file.csv'", MetaCommand::Output(Some("my file.csv".into()))),
            ("\\o my\\ file.csv", MetaCommand::Output(Some("my file.csv".into()))),
            ("\\i a.sql", MetaCommand::Include("a.sql".into())),
            ("\\quit", MetaCommand::Quit),
        ] {
            assert_eq!(line.parse::<MetaCommand>().unwrap(), wanted, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_command_is_said() {
        for (line, said) in [
            ("\\nope", "`\\nope` is not a command"),
            ("\\refresh now", "takes no argument"),
            ("\\d a b", "takes one argument"),
            ("\\i", "needs a file"),
            ("\\x maybe", "on or off"),
            ("\\snapshot x", "needs a number"),
            ("\\format html", "is no format"),
            ("\\query", "needs the name"),
            ("\\query unstable 3", "NAME=VALUE"),
            ("\\o 'a", "a quote is not closed"),
        ] {
            let error = line.parse::<MetaCommand>().unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn every_listed_command_is_one() {
        for (name, ..) in COMMANDS {
            let read = name.parse::<MetaCommand>();
            let bare = read.map_err(|error| error.to_string());
            assert!(bare.as_ref().err().is_none_or(|said| said.contains("needs")), "{bare:?}");
        }
    }
}
