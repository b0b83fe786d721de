//! Questions in SQL, and those with a name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::json::{StructMode, WriterBuilder};
use axum::extract::State;
use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use steplake::model::StateId;
use steplake::query::{NamedQuery, ScalarValue, Statement};

use super::exact::ExactNumbers;
use super::reader::{LakeReader, text, unreadable, written};
use crate::answers::{JsonBody, JsonRequest, JsonResult, Problem, computed};
use steplake_server::FirstRows;

/// The usual number of rows of an answer, and the most.
const ROWS_USUAL: usize = 1000;
const ROWS_MAX: usize = 100_000;

#[derive(Serialize)]
struct ListedQuery<'a> {
    name: &'a str,
    title: &'a str,
    topic: String,
    sql: &'a str,
    needs: Option<String>,
    parameters: Vec<ListedParameter<'a>>,
}

#[derive(Serialize)]
struct ListedParameter<'a> {
    name: &'a str,
    kind: &'a str,
    /// The value in this lake; none if the caller has to give one.
    default: Option<&'a str>,
    description: &'a str,
}

pub(super) async fn list(State(lake): State<LakeReader>) -> JsonResult {
    let served = lake.served().await?;
    let listed = NamedQuery::list().iter().map(|query| ListedQuery {
        name: query.name,
        title: query.title,
        topic: format!("{:?}", query.topic).to_lowercase(),
        sql: query.sql,
        needs: (!query.needs.is_empty()).then(|| query.needs.join(", ")),
        parameters: query
            .parameters
            .iter()
            .map(|parameter| ListedParameter {
                name: parameter.name,
                kind: parameter.kind.as_str(),
                default: served.engine.default_of(parameter),
                description: parameter.description,
            })
            .collect(),
    });
    Ok(JsonBody::of(&listed.collect::<Vec<_>>()))
}

#[derive(Deserialize)]
pub(super) struct SentQuery {
    sql: Option<String>,
    name: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct AnswerColumn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize)]
struct ShownAnswer {
    columns: Vec<AnswerColumn>,
    rows: Box<RawValue>,
    is_cut: bool,
    seconds: f64,
    /// The steps that the tables do not count, in words.
    warning: Option<String>,
    /// The text of a named query with its parameters.
    sql: Option<String>,
}

pub(super) async fn query(
    State(lake): State<LakeReader>,
    JsonRequest(sent): JsonRequest<SentQuery>,
) -> JsonResult {
    let began = Instant::now();
    let rows_max = sent.limit.unwrap_or(ROWS_USUAL).min(ROWS_MAX);
    let (statement, sql) = match (sent.sql, sent.name) {
        (Some(text), None) => (Statement { text, ..Statement::default() }, None),
        (None, Some(name)) => {
            let statement = named(&lake, name, sent.parameters).await?;
            let sql = with_values(&statement);
            (statement, Some(sql))
        }
        _ => return Err(Problem::wrong("send either `sql`, or the `name` of a query")),
    };
    let gathered = lake.gather(statement, rows_max).await?;
    computed(move || {
        let FirstRows { schema, batches, is_cut, uncounted } = gathered;
        let columns = schema.fields().iter().map(|field| AnswerColumn {
            name: field.name().clone(),
            kind: field.data_type().to_string(),
        });
        let lists = WriterBuilder::new().with_explicit_nulls(true);
        let lists = lists.with_encoder_factory(Arc::new(ExactNumbers));
        let rows = written(lists.with_struct_mode(StructMode::ListOnly), &batches)?;
        let rows = String::from_utf8(rows).map_err(|error| unreadable(&error))?;
        Ok(JsonBody::of(&ShownAnswer {
            columns: columns.collect(),
            rows: RawValue::from_string(rows).map_err(|error| unreadable(&error))?,
            is_cut,
            seconds: began.elapsed().as_secs_f64(),
            warning: uncounted.map(|uncounted| uncounted.to_string()),
            sql,
        }))
    })
    .await
}

/// Returns a named query as a statement.
async fn named(
    lake: &LakeReader,
    name: String,
    parameters: BTreeMap<String, String>,
) -> Result<Statement, Problem> {
    let served = lake.served().await?;
    let parameters: Vec<(String, String)> = parameters.into_iter().collect();
    let statement = async move { served.engine.named_statement(&name, &parameters).await };
    Ok(lake.queries().await?.on_query_threads(statement.boxed()).await?)
}

/// Returns the text of a statement with its values in it. It goes through the text once, since a
/// value may look like the name of another.
fn with_values(statement: &Statement) -> String {
    let mut parts = statement.text.split('$');
    let mut sql = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        match statement.values.iter().find(|(known, _)| known == name) {
            Some((_, value)) => sql.push_str(&literal(value)),
            None => sql.extend(["$", name]),
        }
        sql.push_str(rest);
    }
    sql
}

/// Returns a value as SQL writes it.
fn literal(value: &ScalarValue) -> String {
    match value {
        ScalarValue::FixedSizeBinary(20, Some(state)) => {
            text(&StateId::from_slice(state).to_string())
        }
        ScalarValue::Utf8(Some(value)) => text(value),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_names_were() {
        let values = [
            ("state", ScalarValue::FixedSizeBinary(20, Some(vec![0xab; 20]))),
            ("state_name", ScalarValue::from("it's $tries")),
            ("tries", ScalarValue::from(3_i64)),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let text = "SELECT $state, $state_name, '$' WHERE x >= $tries".to_owned();
        let sql = with_values(&Statement { text, values, ..Statement::default() });
        assert_eq!(sql, format!("SELECT '{}', 'it''s $tries', '$' WHERE x >= 3", "ab".repeat(20)));
    }
}
