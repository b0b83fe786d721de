//! Looks up the values of a named query's parameters in the lake: a state, an action, a benchmark.
//! A query about something that the lake does not have would have no rows without saying why.

use std::collections::BTreeSet;

use arrow::array::{Array as _, AsArray as _, StringArray};
use arrow::compute::like;
use futures::TryStreamExt as _;

use super::named::{BoundQuery, NamedQuery, quoted_text};
use super::parameters::{Parameter, ParameterKind};
use super::prepared::Statement;
use crate::answers::answer::Answer;
use crate::engine::Engine;
use crate::errors::error::QueryError;
use crate::graph::Law;
use crate::sources::views::{number_spaces, reward_spaces, vector_spaces};
use steplake_model::Remedy;
use steplake_model::suggestions::{list, near, near_as};

/// The most names that a message lists.
const LISTED_MAX: usize = 20;

/// The digits of a state id that a mistyped one must have right.
const START_DIGITS: usize = 4;

/// The most states that a mistyped one is compared with.
const COMPARED_MAX: usize = 1000;

/// A pattern that matches everything. It is allowed in an empty lake too.
const EVERYTHING: &str = "%";

/// The value as the lake has it, or one line about why it has none.
type LookupResult = Result<String, String>;

/// Whether a text has the parameter `$name`.
fn has_parameter(sql: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    sql.match_indices('$').any(|(at, _)| sql[at + 1..].strip_prefix(name).is_some_and(ends))
}

impl Engine {
    /// Begins to answer a named query. A parameter without a value takes its default.
    ///
    /// # Errors
    ///
    /// [`QueryError::UnknownQuery`], [`QueryError::Parameter`].
    pub async fn named(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<Answer, QueryError> {
        self.one_identity("a named query")?;
        let prepared = self.prepare(NamedQuery::get(name)?, values).await?;
        self.answer(&prepared.sql, prepared.values).await
    }

    /// Returns a named query as a statement, to describe or to run later.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::named`].
    pub async fn named_statement(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<Statement, QueryError> {
        self.one_identity("a named query")?;
        let BoundQuery { sql, mut values } = self.prepare(NamedQuery::get(name)?, values).await?;
        // The others are literals in the text by now.
        values.retain(|(name, _)| has_parameter(&sql, name));
        Ok(Statement { text: sql, values, ..Statement::default() })
    }

    /// Returns the default of a parameter as this lake has it: the space that is meant. `None` if
    /// the parameter has none, or the lake no such space.
    pub fn default_of<'a>(&'a self, parameter: &Parameter) -> Option<&'a str> {
        parameter.in_lake(parameter.default?, &self.identity)
    }

    /// Looks up `values` and puts them into a query.
    async fn prepare(
        &self,
        query: &NamedQuery,
        values: &[(String, String)],
    ) -> Result<BoundQuery, QueryError> {
        let identity = self.one_identity("a named query")?;
        query.demand_needs(identity)?;
        let mut found = Vec::new();
        for (parameter, text) in query.given(values)? {
            let text = parameter.in_lake(text, identity).ok_or_else(|| {
                let (what, remedy) = match parameter.kind {
                    ParameterKind::Reward => {
                        let what = "reward space: a run records those that it is told";
                        (what, Remedy::Field("rewards"))
                    }
                    ParameterKind::Cost => ("single numbers", Remedy::Backfill(None)),
                    _ => ("named numbers", Remedy::Backfill(None)),
                };
                let problem = format!("this lake records no {what}");
                query.not_in_lake(parameter, &problem, Some(remedy))
            })?;
            if let Err(mut problem) = parameter.kind.value(text) {
                if parameter.kind == ParameterKind::State
                    && let Some(meant) = self.meant_state(text).await?
                {
                    problem = format!("{problem}; {meant}");
                }
                return Err(query.wrong_value(parameter, &problem));
            }
            let value = self.look_up(parameter.kind, text).await?;
            found.push((parameter, value.map_err(|why| query.not_in_lake(parameter, &why, None))?));
        }
        query.prepare(&found)
    }

    /// The value that `text` stands for.
    async fn look_up(&self, kind: ParameterKind, text: &str) -> Result<LookupResult, QueryError> {
        let identity = self.one_identity("a parameter")?;
        let (what, names, all) = match kind {
            ParameterKind::Integer | ParameterKind::Number => return Ok(Ok(text.to_owned())),
            ParameterKind::State => return self.look_up_state(text).await,
            ParameterKind::Benchmark => return self.look_up_benchmark(text).await,
            ParameterKind::Family => return self.look_up_family(text).await,
            ParameterKind::Law => {
                return Ok(one_like("law is", text, &Law::ALL.map(Law::name), None));
            }
            ParameterKind::Reward => ("reward space", reward_spaces(identity), None),
            ParameterKind::Cost => {
                ("observation space of single numbers", number_spaces(identity), None)
            }
            ParameterKind::Vector => {
                ("observation space of named numbers", vector_spaces(identity), None)
            }
            ParameterKind::Action => {
                let actions = &identity.action_space.actions;
                let names = actions.iter().map(|action| action.name.as_str());
                ("action", names.collect(), Some("SELECT name FROM actions"))
            }
        };
        if names.contains(&text) {
            return Ok(Ok(text.to_owned()));
        }
        let hint = hint(text, &names, all);
        Ok(Err(format!("this lake has no {what} `{text}`: {hint}")))
    }

    /// Whether the lake has observed a state.
    async fn look_up_state(&self, text: &str) -> Result<LookupResult, QueryError> {
        let id = quoted_text(text);
        let sql = format!("SELECT state_id FROM observations WHERE state_id = {id} LIMIT 1");
        let rows = self.sql(&sql).await?.try_collect::<Vec<_>>().await?;
        if rows.iter().any(|batch| batch.num_rows() > 0) {
            return Ok(Ok(text.to_owned()));
        }
        let shown = "`SELECT state_id FROM steps LIMIT 10` shows some that it has";
        let hint = self.meant_state(text).await?.unwrap_or_else(|| shown.to_owned());
        Ok(Err(format!("this lake has no state `{text}`: {hint}")))
    }

    /// A suggestion for a state: one that begins as the text does, and is a few typing errors away
    /// from it or longer.
    async fn meant_state(&self, text: &str) -> Result<Option<String>, QueryError> {
        let Some(start) = text.get(..START_DIGITS) else { return Ok(None) };
        let Ok(start) = u16::from_str_radix(start, 16) else { return Ok(None) };
        // States are found by their first eight bytes.
        // The first two bytes of a key are its highest ones.
        let first = (u64::from(start) << 48).cast_signed();
        let last = first | i64::MAX >> 15;
        let sql = format!(
            "SELECT DISTINCT hex(state_id) AS id FROM observations \
             WHERE state_key BETWEEN {first} AND {last} LIMIT {COMPARED_MAX}"
        );
        let ids = self.texts(&sql).await?;
        let near = near(text, ids.iter().map(String::as_str));
        Ok((!near.is_empty()).then(|| format!("did you mean {}?", list(&near))))
    }

    async fn look_up_family(&self, text: &str) -> Result<LookupResult, QueryError> {
        if text == EVERYTHING {
            return Ok(Ok(text.to_owned()));
        }
        let sql = "SELECT DISTINCT family FROM benchmarks";
        let families = self.texts(sql).await?;
        let families: Vec<&str> = families.iter().map(String::as_str).collect();
        Ok(one_like("family of this lake is", text, &families, Some(sql)))
    }

    /// The pattern for benchmarks that `pattern` stands for: itself if it matches any, or else the
    /// only one that matches after the versions of packages are put in.
    pub(crate) async fn look_up_benchmark(
        &self,
        pattern: &str,
    ) -> Result<LookupResult, QueryError> {
        if pattern == EVERYTHING {
            return Ok(Ok(pattern.to_owned()));
        }
        // There may be a million benchmarks, so this first looks for one that matches.
        let fits = quoted_text(pattern);
        let sql = format!(
            "SELECT CAST(benchmark_uri AS VARCHAR) AS uri FROM benchmarks WHERE benchmark_uri LIKE {fits} LIMIT 1"
        );
        if !self.texts(&sql).await?.is_empty() {
            return Ok(Ok(pattern.to_owned()));
        }
        // A program that the compiler failed on may be in the table `episodes` alone.
        let all = "SELECT CAST(benchmark_uri AS VARCHAR) AS uri FROM benchmarks UNION \
                   SELECT CAST(benchmark_uri AS VARCHAR) FROM episodes";
        let uris = self.texts(all).await?;
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        let all = Some("SELECT benchmark_uri FROM benchmarks");
        let like_it = one_like("benchmark of this lake is", pattern, &uris, all);
        if like_it.is_ok() {
            return Ok(like_it);
        }
        Ok(match &with_versions(pattern, &uris)[..] {
            [] => like_it,
            [only] => {
                tracing::warn!("the benchmark `{pattern}` stands for `{only}`");
                Ok(only.clone())
            }
            several => {
                let several = list(&several[..several.len().min(LISTED_MAX)]);
                Err(format!("`{pattern}` may stand for any of {several}: name one"))
            }
        })
    }

    /// The texts in the first column of an answer, sorted and without nulls.
    async fn texts(&self, sql: &str) -> Result<Vec<String>, QueryError> {
        let mut texts = Vec::new();
        for batch in self.sql(sql).await?.try_collect::<Vec<_>>().await? {
            let column = batch.column(0).as_string::<i32>();
            texts.extend(column.iter().flatten().map(str::to_owned));
        }
        texts.sort_unstable();
        Ok(texts)
    }
}

/// The pattern, if one of the names is like it.
fn one_like(what: &str, pattern: &str, names: &[&str], all: Option<&str>) -> LookupResult {
    if which_like(pattern, names.iter()).contains(&true) {
        return Ok(pattern.to_owned());
    }
    Err(format!("no {what} like `{pattern}`: {}", hint(pattern, names, all)))
}

/// Which names are LIKE a pattern.
fn which_like(pattern: &str, names: impl Iterator<Item = impl AsRef<str>>) -> Vec<bool> {
    let names = StringArray::from_iter_values(names);
    let which = like(&names, &StringArray::new_scalar(pattern));
    which.map_or_else(
        |_| vec![false; names.len()],
        |which| which.iter().map(|is_like| is_like == Some(true)).collect(),
    )
}

/// A suggestion for a value. If no name is near, all names, or the query that lists them.
fn hint(text: &str, names: &[&str], all: Option<&str>) -> String {
    let bare = text.trim_matches('%');
    let mut near = near_as(bare, names.iter().copied().map(|name| (unversioned(name), name)));
    let length = bare.chars().count();
    if near.is_empty() && text.ends_with('%') && length >= 4 {
        // The pattern stands for names that begin so.
        let begin = |name: &str| unversioned(name).chars().take(length).collect::<String>();
        near = near_as(bare, names.iter().copied().map(|name| (begin(name), name)));
    }
    match (&near[..], names, all) {
        ([], [], _) => "it has none".to_owned(),
        ([], names, Some(all)) if names.len() > LISTED_MAX => format!("`{all}` lists them"),
        ([], names, _) => format!("there are {}", list(names)),
        (near, ..) => format!("did you mean {}?", list(near)),
    }
}

/// A URI without the versions of packages: `benchmark://debian-v0/zlib@1:1.2/a.c` as
/// `benchmark://debian-v0/zlib/a.c`.
fn unversioned(uri: &str) -> String {
    if !uri.starts_with("benchmark://") {
        return uri.to_owned();
    }
    let parts = uri.split('/').map(|part| part.split('@').next().unwrap_or(part));
    parts.collect::<Vec<_>>().join("/")
}

/// A pattern without versions, with the versions of each URI that it matches.
fn with_versions(pattern: &str, uris: &[&str]) -> Vec<String> {
    let bare: Vec<String> = uris.iter().map(|uri| unversioned(uri)).collect();
    let fits = which_like(pattern, bare.iter());
    let fitting = fits.into_iter().zip(&bare).zip(uris);
    let fitting = fitting.filter(|((fits, bare), uri)| *fits && *bare != **uri);
    let versioned: BTreeSet<_> = fitting.map(|(_, uri)| with_version(pattern, uri)).collect();
    versioned.into_iter().collect()
}

/// A pattern with the versions of a URI that it matches without versions. Behind a part with `%`,
/// the parts cannot be aligned; the URI itself is then the pattern.
fn with_version(pattern: &str, uri: &str) -> String {
    let mut parts: Vec<&str> = pattern.split('/').collect();
    let of_uri: Vec<&str> = uri.split('/').collect();
    for (part, own) in parts.iter_mut().zip(&of_uri) {
        if part.contains('%') {
            break;
        }
        if own.contains('@') {
            *part = own;
        }
    }
    let versioned = parts.join("/");
    if versioned == pattern { uri.to_owned() } else { versioned }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_put_where_the_uris_have_them() {
        let uris = [
            "benchmark://debian-v0/zlib@1:1.2/adler32.c",
            "benchmark://debian-v0/zlib@1:1.2/contrib/a@b.c",
            "benchmark://debian-v0/bzip2@5/a.c",
            "benchmark://debian-v0/bzip2@6/a.c",
            "file:///x@1/zlib/adler32.c",
        ];
        for (pattern, wanted) in [
            (
                "benchmark://debian-v0/zlib/adler32.c",
                &["benchmark://debian-v0/zlib@1:1.2/adler32.c"][..],
            ),
            ("benchmark://debian-v0/zlib/%", &["benchmark://debian-v0/zlib@1:1.2/%"]),
            ("%/zlib/adler32.c", &["benchmark://debian-v0/zlib@1:1.2/adler32.c"]),
            (
                "benchmark://debian-v0/bzip2/a.c",
                &["benchmark://debian-v0/bzip2@5/a.c", "benchmark://debian-v0/bzip2@6/a.c"],
            ),
            ("benchmark://debian-v0/zlib@1:1.3/%", &[]),
            ("file:///x/zlib/adler32.c", &[]),
            ("nothing", &[]),
        ] {
            assert_eq!(with_versions(pattern, &uris), wanted, "{pattern}");
        }
    }

    #[test]
    fn what_is_too_long_to_be_listed_is_named() {
        let names: Vec<String> = (0..=LISTED_MAX).map(|number| format!("pass-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = Some("SELECT name FROM actions");
        assert_eq!(hint("zzzzzzzz", &names, all), "`SELECT name FROM actions` lists them");
        assert_eq!(hint("zzzzzzzz", &names[..2], all), "there are `pass-0`, `pass-1`");
        assert_eq!(
            hint("%pas-13", &names, all),
            "did you mean `pass-13`, `pass-1`, `pass-10`, `pass-11`, `pass-12`?"
        );
        assert_eq!(hint("a", &[], all), "it has none");
        let laws = ["idempotent", "commuting", "absorbed"];
        assert_eq!(hint("comut%", &laws, None), "did you mean `commuting`?");
        assert_eq!(hint("zzzzz%", &laws, None), "there are `idempotent`, `commuting`, `absorbed`");
    }
}
