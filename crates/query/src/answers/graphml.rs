//! The transition graph as `GraphML`, for networkx, Gephi and similar programs.

use std::io::Write;

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt as _;

use super::answer::Answer;
use crate::engine::Engine;
use crate::errors::error::QueryError;
use crate::questions::named::quoted_text;
use crate::sources::views::{number_spaces, quoted};
use steplake_lake::Identity;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenGraph {
    /// The states.
    pub nodes: u64,
    /// The transitions.
    pub edges: u64,
}

/// An element of the graph, and the columns that name it.
type Element = (&'static str, &'static [&'static str]);

const NODE: Element = ("node", &["state_id"]);
const EDGE: Element = ("edge", &["state_id", "next_state_id"]);

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
    keys(NODE, &nodes.schema(), out)?;
    keys(EDGE, &edges.schema(), out)?;
    writeln!(out, "  <graph id=\"transitions\" edgedefault=\"directed\">")?;
    let nodes = elements(NODE, nodes, out).await?;
    let edges = elements(EDGE, edges, out).await?;
    writeln!(out, "  </graph>\n</graphml>")?;
    out.flush()?;
    Ok(WrittenGraph { nodes, edges })
}

/// The SQL for the nodes.
fn nodes(identity: &Identity, pattern: &str) -> String {
    let columns = number_spaces(identity).into_iter().map(|name| format!("o.{}, ", quoted(name)));
    let columns: String = columns.collect();
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

/// Declares the data of the elements.
fn keys((kind, ids): Element, schema: &SchemaRef, out: &mut impl Write) -> Result<(), QueryError> {
    for field in schema.fields().iter().filter(|field| !ids.contains(&field.name().as_str())) {
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
    (kind, ids): Element,
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
    let ids = ids.iter().map(|id| schema.index_of(id).map_err(QueryError::failed));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        match ids[..] {
            [from, to] => {
                let [from, to] = [from, to].map(|id| formatters[id].value(row));
                write!(out, "    <edge source=\"{from}\" target=\"{to}\">")?;
            }
            _ => write!(out, "    <node id=\"{}\">", formatters[ids[0]].value(row))?,
        }
        for (place, field) in schema.fields().iter().enumerate() {
            if !ids.contains(&place) && batch.column(place).is_valid(row) {
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
