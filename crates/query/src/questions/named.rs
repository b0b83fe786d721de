//! Named queries: one file each in `queries/`.
//!
//! A file begins with comments that say what it answers and what it takes:
//!
//! ```sql
//! -- Mean reward of every action
//! -- topic: actions
//! -- needs Autophase
//! -- param reward: reward = the first scaled one -- the reward space
//! -- param tries: integer = 1 -- leave out actions tried less often
//! SELECT … avg({reward}) … HAVING count(*) >= $tries
//! ```
//!
//! `needs` names an observation space that the lake must record, where no parameter can name
//! another. A parameter without `= default` must be given. A default names no space, since
//! environments have others, but says which of the lake's is meant. Values reach the query as typed
//! parameters (`$name`). Where SQL takes none, as in the arguments of a table function, `{name}`
//! stands for the literal that a value was read as. A reward space is a column as `{name}`, and its
//! name as `'{name}'`; any other name is a column as `"{name}"`. The names in values are looked up
//! in the lake before the query runs: see [`ParameterKind`].

use std::collections::BTreeMap;
use std::sync::LazyLock;

use datafusion::common::ScalarValue;

use super::parameters::{Parameter, ParameterKind};
use crate::errors::error::QueryError;
use crate::sources::views::{quoted, reward_column};
use steplake_lake::Identity;
use steplake_model::Remedy;
use steplake_model::suggestions::meant;

/// The files of `queries/` by name.
const FILES: [(&str, &str); 38] = [
    ("absorbing", include_str!("../../../../queries/absorbing.sql")),
    ("advantage", include_str!("../../../../queries/advantage.sql")),
    ("advantage_by_action", include_str!("../../../../queries/advantage_by_action.sql")),
    ("algebra", include_str!("../../../../queries/algebra.sql")),
    ("best_choices", include_str!("../../../../queries/best_choices.sql")),
    ("best_cost", include_str!("../../../../queries/best_cost.sql")),
    ("best_episode", include_str!("../../../../queries/best_episode.sql")),
    ("best_from", include_str!("../../../../queries/best_from.sql")),
    ("cost_by_action", include_str!("../../../../queries/cost_by_action.sql")),
    ("coverage", include_str!("../../../../queries/coverage.sql")),
    ("dedup", include_str!("../../../../queries/dedup.sql")),
    ("dedup_conflicts", include_str!("../../../../queries/dedup_conflicts.sql")),
    ("dedup_failures", include_str!("../../../../queries/dedup_failures.sql")),
    ("failed_starts", include_str!("../../../../queries/failed_starts.sql")),
    ("failures_by_action", include_str!("../../../../queries/failures_by_action.sql")),
    ("frontier", include_str!("../../../../queries/frontier.sql")),
    ("full_fan_out", include_str!("../../../../queries/full_fan_out.sql")),
    ("ir_diff", include_str!("../../../../queries/ir_diff.sql")),
    ("leaderboard_rows", include_str!("../../../../queries/leaderboard_rows.sql")),
    ("mean_reward", include_str!("../../../../queries/mean_reward.sql")),
    ("minimised", include_str!("../../../../queries/minimised.sql")),
    ("most_expensive", include_str!("../../../../queries/most_expensive.sql")),
    ("never_changed", include_str!("../../../../queries/never_changed.sql")),
    ("noop_rate", include_str!("../../../../queries/noop_rate.sql")),
    ("noop_rate_by_family", include_str!("../../../../queries/noop_rate_by_family.sql")),
    ("opcode_delta", include_str!("../../../../queries/opcode_delta.sql")),
    ("option_effects", include_str!("../../../../queries/option_effects.sql")),
    ("path_to", include_str!("../../../../queries/path_to.sql")),
    ("reachable", include_str!("../../../../queries/reachable.sql")),
    ("returns", include_str!("../../../../queries/returns.sql")),
    ("shared_outputs", include_str!("../../../../queries/shared_outputs.sql")),
    ("shortest_path", include_str!("../../../../queries/shortest_path.sql")),
    ("shortest_sequence", include_str!("../../../../queries/shortest_sequence.sql")),
    ("speedups", include_str!("../../../../queries/speedups.sql")),
    ("states_by_depth", include_str!("../../../../queries/states_by_depth.sql")),
    ("throughput", include_str!("../../../../queries/throughput.sql")),
    ("transition_graph", include_str!("../../../../queries/transition_graph.sql")),
    ("unstable", include_str!("../../../../queries/unstable.sql")),
];

static QUERIES: LazyLock<Vec<NamedQuery>> =
    LazyLock::new(|| FILES.iter().map(|(name, text)| NamedQuery::parse(name, text)).collect());

/// A question with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedQuery {
    /// Its name.
    pub name: &'static str,
    /// What it answers, one line.
    pub title: &'static str,
    /// What it is about.
    pub topic: Topic,
    /// The observation spaces that the lake must record.
    pub needs: Vec<&'static str>,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// Its text, including the head.
    pub sql: &'static str,
}

/// What a query is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// The best and the shortest sequences of actions.
    Sequences,
    /// The value of an action in a state.
    Values,
    /// Statistics of actions over all states.
    Actions,
    /// The states and actions that were reached and tried, and those that were not.
    States,
    /// One transition, or the whole graph.
    Transitions,
    /// Failures of the compiler, and actions with several results.
    Failures,
    /// Samples of spaces that differ from one observation to the next.
    Measurements,
}

impl Topic {
    /// Every topic in the usual order of questions, each with one line about its queries.
    pub const ALL: [(Self, &str); 7] = [
        (Self::Sequences, "Sequences of actions: the best and the shortest"),
        (Self::Values, "Values: how much an action is worth in a state"),
        (Self::Actions, "Actions: statistics over all states"),
        (Self::States, "States: what was reached and tried, and what was not"),
        (Self::Transitions, "Transitions: one of them, or the whole graph"),
        (Self::Failures, "Failures of the compiler, and actions with several results"),
        (Self::Measurements, "Measurements: run times, and what makes programs faster"),
    ];
}

/// A query with the values of its parameters.
#[derive(Debug)]
pub(crate) struct BoundQuery {
    pub(crate) sql: String,
    pub(crate) values: Vec<(String, ScalarValue)>,
}

/// The text that replaces `{name}`, and the one that replaces it and the quotes around it, with the
/// kind of quotes, if there is one.
struct Substitution {
    bare: String,
    quoted: Option<(char, String)>,
}

/// A query's text with its parameters replaced, in one pass: a parameter in a user's value stays as
/// it is.
fn filled(text: &str, fillings: &BTreeMap<&str, Substitution>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let found = after.split_once('}');
        let found = found.and_then(|(name, after)| Some((fillings.get(name)?, after)));
        filled.push_str(before);
        let Some((filling, after)) = found else {
            filled.push('{');
            rest = after;
            continue;
        };
        rest = after;
        if let Some((quote, quoted)) = &filling.quoted
            && filled.ends_with(*quote)
            && let Some(after) = after.strip_prefix(*quote)
        {
            filled.pop();
            filled.push_str(quoted);
            rest = after;
        } else {
            filled.push_str(&filling.bare);
        }
    }
    filled.push_str(rest);
    filled
}

/// A value as SQL writes it.
fn literal(value: &ScalarValue) -> String {
    match value {
        ScalarValue::FixedSizeBinary(_, Some(bytes)) => {
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("X'{}'", digits.concat())
        }
        ScalarValue::Float64(Some(number)) => format!("{number:?}"),
        ScalarValue::Utf8(Some(text)) => quoted_text(text),
        number => number.to_string(),
    }
}

/// A text in SQL's quotes.
pub(crate) fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl NamedQuery {
    /// All named queries, by name.
    pub fn list() -> &'static [Self] {
        &QUERIES
    }

    /// The query called `name`.
    ///
    /// # Errors
    ///
    /// [`QueryError::UnknownQuery`].
    pub fn get(name: &str) -> Result<&'static Self, QueryError> {
        Self::list().iter().find(|query| query.name == name).ok_or_else(|| {
            let known: Vec<&str> = Self::list().iter().map(|query| query.name).collect();
            QueryError::UnknownQuery { name: name.to_owned(), hint: meant(name, &known) }
        })
    }

    /// Reads the head of a file. The files are part of the program, so a head that cannot be read
    /// is a defect of the program.
    fn parse(name: &'static str, sql: &'static str) -> Self {
        let mut head = sql.lines().map_while(|line| line.strip_prefix("-- "));
        let title = head.next().unwrap_or_else(|| panic!("query {name} has no title"));
        let topic = head.next().and_then(|line| line.strip_prefix("topic: "));
        let is_named = |topic: &Topic, word| format!("{topic:?}").eq_ignore_ascii_case(word);
        let topic = topic.and_then(|word| {
            Topic::ALL.into_iter().map(|(topic, _)| topic).find(|topic| is_named(topic, word))
        });
        let topic = topic.unwrap_or_else(|| panic!("query {name} has no topic"));
        let head: Vec<&str> = head.collect();
        let needs = head.iter().filter_map(|line| line.strip_prefix("needs ")).collect();
        let parameters = head.iter().filter_map(|line| line.strip_prefix("param "));
        let parameters = parameters.map(|line| {
            Parameter::parse(line)
                .unwrap_or_else(|| panic!("query {name}: `{line}` is no parameter"))
        });
        Self { name, title, topic, needs, parameters: parameters.collect(), sql }
    }

    /// The value of each parameter: from `values`, or its default. This does not look values up in
    /// a lake.
    pub(crate) fn given<'a>(
        &'a self,
        values: &'a [(String, String)],
    ) -> Result<Vec<(&'a Parameter, &'a str)>, QueryError> {
        for (place, (name, _)) in values.iter().enumerate() {
            if !self.parameters.iter().any(|parameter| parameter.name == name) {
                return Err(self.wrong(format!("there is no parameter `{name}`")));
            }
            if values[..place].iter().any(|(earlier, _)| earlier == name) {
                return Err(self.wrong(format!("`{name}` is given twice")));
            }
        }
        let given = self.parameters.iter().map(|parameter| {
            let name = parameter.name;
            let given = values.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
            let text = given.or(parameter.default);
            Ok((parameter, text.ok_or_else(|| self.wrong(format!("`{name}` must be given")))?))
        });
        given.collect()
    }

    /// Replaces the parameters by values.
    pub(crate) fn prepare(
        &self,
        values: &[(&Parameter, String)],
    ) -> Result<BoundQuery, QueryError> {
        let (mut fillings, mut typed) = (BTreeMap::new(), Vec::new());
        for (parameter, text) in values {
            let name = parameter.name;
            let filling = match parameter.kind {
                ParameterKind::Reward => {
                    let quoted = Some(('\'', quoted_text(text)));
                    Substitution { bare: reward_column(text), quoted }
                }
                kind => {
                    let value = kind.value(text);
                    let value = value.map_err(|problem| self.wrong_value(parameter, &problem))?;
                    let bare = literal(&value);
                    typed.push((name.to_owned(), value));
                    Substitution { bare, quoted: Some(('"', quoted(text))) }
                }
            };
            fillings.insert(name, filling);
        }
        Ok(BoundQuery { sql: filled(self.sql, &fillings), values: typed })
    }

    /// The error for a value that cannot be read.
    pub(crate) fn wrong_value(&self, parameter: &Parameter, problem: &str) -> QueryError {
        self.wrong(format!("`{}`: {problem}", parameter.name))
    }

    /// The error for a value that the lake does not have.
    pub(crate) fn not_in_lake(
        &self,
        parameter: &Parameter,
        problem: &str,
        remedy: Option<Remedy>,
    ) -> QueryError {
        let problem = format!("`{}`: {problem}", parameter.name);
        QueryError::NotInLake { query: self.name.to_owned(), problem, remedy }
    }

    /// Demands that a lake records what the query needs.
    ///
    /// # Errors
    ///
    /// [`QueryError::NotInLake`].
    pub(crate) fn demand_needs(&self, identity: &Identity) -> Result<(), QueryError> {
        let of_states = identity.observations.iter().map(|space| &space.name);
        let recorded: Vec<&String> = of_states.chain(&identity.baselines).collect();
        let lacks = |name: &&&str| !recorded.iter().any(|known| *known == **name);
        let Some(lacking) = self.needs.iter().find(lacks) else { return Ok(()) };
        let problem = format!(
            "this lake, of {}, does not record the observation space `{lacking}`, which its \
             environment may have",
            identity.environment
        );
        let remedy = Some(Remedy::Backfill(Some((*lacking).to_owned())));
        Err(QueryError::NotInLake { query: self.name.to_owned(), problem, remedy })
    }

    fn wrong(&self, problem: String) -> QueryError {
        let parameters = if self.parameters.is_empty() {
            "it takes no parameters".to_owned()
        } else {
            let all: Vec<String> = self.parameters.iter().map(Parameter::to_string).collect();
            format!("it takes {}", all.join(", "))
        };
        QueryError::Parameter { query: self.name.to_owned(), problem, parameters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_is_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../queries");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let listed: BTreeSet<String> =
            FILES.iter().map(|(name, _)| format!("{name}.sql")).collect();
        assert_eq!(files, listed);
        assert!(FILES.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn every_query_uses_what_it_declares_and_declares_what_it_uses() {
        for query in NamedQuery::list() {
            let body: Vec<&str> =
                query.sql.lines().filter(|line| !line.starts_with("--")).collect();
            let body = body.join("\n");
            let uses = |open: char, text: &str| -> Vec<String> {
                let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                text.match_indices(open)
                    .map(|(at, _)| text[at + 1..].chars().take_while(|&c| name(c)).collect())
                    .collect()
            };
            let used: BTreeSet<String> =
                [uses('$', &body), uses('{', &body)].concat().into_iter().collect();
            let declared: BTreeSet<String> =
                query.parameters.iter().map(|parameter| parameter.name.to_owned()).collect();
            assert_eq!(used, declared, "{}", query.name);
        }
    }

    #[test]
    fn what_a_value_says_is_no_parameter() {
        let filling = |bare: &str, quoted: Option<&str>| Substitution {
            bare: bare.to_owned(),
            quoted: quoted.map(|text| ('\'', text.to_owned())),
        };
        let mut fillings = BTreeMap::from([
            ("one", filling("'{two}'", None)),
            ("two", filling("\"{one}\"", Some("'{one}'"))),
        ]);
        let column = Some(('"', "\"Co\"\"st\"".to_owned()));
        fillings.insert("three", Substitution { bare: "'Co'".to_owned(), quoted: column });
        for (text, wanted) in [
            ("f({one}, {two}, '{two}')", "f('{two}', \"{one}\", '{one}')"),
            ("'{one}'", "''{two}''"),
            ("'{two}, {four} {", "'\"{one}\", {four} {"),
            ("{{one}}", "{'{two}'}"),
            ("o.\"{three}\", {three}, '{three}'", "o.\"Co\"\"st\", 'Co', ''Co''"),
        ] {
            assert_eq!(filled(text, &fillings), wanted);
        }
    }
}
