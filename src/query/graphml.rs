//! The transition graph as `GraphML`, for networkx, Gephi and similar programs.

use std::io::Write;

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt as _;

use super::answer::Answer;
use super::engine::Engine;
use super::error::QueryError;
use super::named::quoted_text;
use super::views::quoted;
use crate::lake::{Identity, RecordedObservation};
use crate::model::ValueType;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenGraph {
    /// The states.
    pub nodes: u64,
    /// The transitions.
    pub edges: u64,
}

/// What a row of an answer becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Node,
    Edge,
}

impl Element {
    fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Edge => "edge",
        }
    }
}

/// Writes the graph that can be reached from the benchmarks whose URI is LIKE `pattern`, with or
/// without the versions of packages. Each state is a node: its name is its id, and its data are the
/// observations that are single numbers, the fewest `steps` from a benchmark, and the `benchmark`
/// that starts in it. Each transition is a directed edge with the columns of the query
/// `transition_graph`. A missing value has no `data`. Rows are written as they arrive.
///
/// # Errors
///
/// Those of the queries, and [`QueryError::Write`].
pub async fn write_graphml(
    engine: &Engine,
    pattern: &str,
    out: &mut (impl Write + Send),
) -> Result<WrittenGraph, QueryError> {
    let identity = engine.one_identity("the export of the graph")?;
    let found = engine.look_up_benchmark(pattern).await?;
    let pattern = &found.map_err(|problem| QueryError::sql(problem, None))?;
    let nodes = engine.sql(&nodes(identity, pattern)).await?;
    let values = [("benchmark".to_owned(), pattern.clone())];
    let edges = engine.named("transition_graph", &values).await?;
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">")?;
    keys(Element::Node, &nodes.schema(), out)?;
    keys(Element::Edge, &edges.schema(), out)?;
    writeln!(out, "  <graph id=\"transitions\" edgedefault=\"directed\">")?;
    let nodes = elements(Element::Node, nodes, out).await?;
    let edges = elements(Element::Edge, edges, out).await?;
    writeln!(out, "  </graph>\n</graphml>")?;
    out.flush()?;
    Ok(WrittenGraph { nodes, edges })
}

/// The SQL for the nodes.
fn nodes(identity: &Identity, pattern: &str) -> String {
    let is_int = |space: &&RecordedObservation| space.value_type == ValueType::Int;
    let spaces = identity.observations.iter().filter(is_int);
    let columns: Vec<String> = spaces.map(|space| format!("o.{}, ", quoted(&space.name))).collect();
    let columns = columns.concat();
    let pattern = quoted_text(pattern);
    format!(
        "SELECT s.state_id, {columns}s.steps, b.benchmark \
         FROM (SELECT state_id, min(steps) AS steps FROM sequences() \
         WHERE benchmark_uri LIKE {pattern} GROUP BY state_id) AS s \
         LEFT JOIN observations AS o ON o.state_id = s.state_id \
         LEFT JOIN (SELECT initial_state_id, min(benchmark_uri) AS benchmark FROM benchmarks \
         WHERE benchmark_uri LIKE {pattern} GROUP BY initial_state_id) AS b \
         ON b.initial_state_id = s.state_id ORDER BY s.state_id"
    )
}

/// Whether a column is data of an element, and not part of its name.
fn is_data(element: Element, column: &str) -> bool {
    match element {
        Element::Node => column != "state_id",
        Element::Edge => !["state_id", "next_state_id"].contains(&column),
    }
}

/// Declares the data of the elements.
fn keys(element: Element, schema: &SchemaRef, out: &mut impl Write) -> Result<(), QueryError> {
    let kind = element.as_str();
    for field in schema.fields().iter().filter(|field| is_data(element, field.name())) {
        let of = match field.data_type() {
            DataType::Boolean => "boolean",
            DataType::Int32 => "int",
            other if other.is_integer() => "long",
            other if other.is_floating() => "double",
            _ => "string",
        };
        let name = escaped(field.name());
        writeln!(
            out,
            "  <key id=\"{kind}_{name}\" for=\"{kind}\" attr.name=\"{name}\" attr.type=\"{of}\"/>"
        )?;
    }
    Ok(())
}

/// Writes the rows of an answer, each as an element.
async fn elements(
    element: Element,
    mut answer: Answer,
    out: &mut (impl Write + Send),
) -> Result<u64, QueryError> {
    let mut count = 0;
    while let Some(batch) = answer.next().await {
        let batch = batch?;
        count += batch.num_rows() as u64;
        write_batch(element, &batch, out)?;
    }
    Ok(count)
}

fn write_batch(
    element: Element,
    batch: &RecordBatch,
    out: &mut impl Write,
) -> Result<(), QueryError> {
    let options = FormatOptions::default();
    let formatters = batch.columns().iter().map(|column| {
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options);
        formatter.map_err(QueryError::failed)
    });
    let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
    let schema = batch.schema();
    let id = |name: &str| {
        let place = schema.fields().iter().position(|field| field.name() == name);
        &formatters[place.expect("the questions above ask for the ids")]
    };
    let (from, kind) = (id("state_id"), element.as_str());
    let to = (element == Element::Edge).then(|| id("next_state_id"));
    for row in 0..batch.num_rows() {
        match &to {
            None => write!(out, "    <node id=\"{}\">", from.value(row))?,
            Some(to) => write!(
                out,
                "    <edge source=\"{}\" target=\"{}\">",
                from.value(row),
                to.value(row)
            )?,
        }
        for (place, field) in schema.fields().iter().enumerate() {
            if is_data(element, field.name()) && batch.column(place).is_valid(row) {
                let (name, value) = (escaped(field.name()), formatters[place].value(row));
                write!(out, "<data key=\"{kind}_{name}\">{}</data>", escaped(&value.to_string()))?;
            }
        }
        writeln!(out, "</{kind}>")?;
    }
    Ok(())
}

/// Escapes a text for XML. A character that XML cannot represent becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' => escaped.push(character),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_xml_is_escaped() {
        assert_eq!(
            escaped("early-cse<memssa> & \"x\"\u{1}"),
            "early-cse&lt;memssa&gt; &amp; &quot;x&quot;\u{fffd}"
        );
    }
}
