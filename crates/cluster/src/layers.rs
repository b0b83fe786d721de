//! Derived tables of several layers, merged in SQL: see "Layers" in docs/FORMAT.md.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::ViewTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use steplake::lake::{Segment, Snapshot, Table};

use crate::tables::{Mount, ShippedTable};

/// Returns a derived table as a view over all layers of a snapshot.
pub(crate) async fn view(
    snapshot: &Snapshot,
    table: Table,
    mount: &Mount,
) -> Result<Arc<dyn TableProvider>> {
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.enable_ident_normalization = false;
    let context = SessionContext::new_with_config(config);
    let mut layers = Vec::new();
    for (layer, segments) in snapshot.layers() {
        let register = |table: Table| {
            let own: Vec<Segment> =
                segments.iter().filter(|own| own.table == table).copied().cloned().collect();
            if own.is_empty() {
                return Ok(None);
            }
            let name = format!("{}_{}", table.name(), layer.0);
            let provider = ShippedTable::new(&snapshot.schema(table), &own, mount, &[])?;
            context.register_table(&name, Arc::new(provider))?;
            Ok::<_, datafusion::error::DataFusionError>(Some(name))
        };
        layers.push(match table {
            Table::Failures => (register(Table::Failures)?, None),
            _ => (register(Table::StateTransitions)?, register(Table::Conflicts)?),
        });
    }
    let columns: Vec<String> = snapshot
        .schema(table)
        .fields()
        .iter()
        .map(|field| format!("\"{}\"", field.name().replace('"', "\"\"")))
        .collect();
    let sql = match table {
        Table::Failures => failures(&layers, &columns),
        Table::Conflicts => successes(&layers, &columns, "edges > 1"),
        _ => successes(&layers, &columns, "place = 1"),
    };
    let plan = context.state().create_logical_plan(&sql).await?;
    Ok(Arc::new(ViewTable::new(plan, Some(sql))))
}

/// The names of a layer's tables: transitions or failures, and conflicts.
type Layer = (Option<String>, Option<String>);

/// The order of steps: a merged row keeps the values of the first.
const FIRST: &str = "first_episode_id, first_step_index";
const EDGE: &str = "state_id, state_key, action, next_state_id, next_state_key";

/// Returns the SQL for the edges that led to a state and satisfy the condition `wanted`.
fn successes(layers: &[Layer], columns: &[String], wanted: &str) -> String {
    let list = columns.join(", ");
    let mut parts = Vec::new();
    for (transitions, conflicts) in layers {
        if let Some(conflicts) = conflicts {
            parts.push(format!("SELECT {list} FROM \"{conflicts}\""));
        }
        match (transitions, conflicts) {
            (Some(transitions), Some(conflicts)) => parts.push(format!(
                "SELECT {list} FROM \"{transitions}\" AS t WHERE NOT EXISTS (\
                 SELECT 1 FROM \"{conflicts}\" AS c \
                 WHERE c.state_id = t.state_id AND c.action = t.action)"
            )),
            (Some(transitions), None) => {
                parts.push(format!("SELECT {list} FROM \"{transitions}\""));
            }
            (None, _) => {}
        }
    }
    let summed = merged(columns, &parts, EDGE, &["count", "wall_time_us"]);
    format!(
        "SELECT {list} FROM (SELECT *, \
         row_number() OVER (PARTITION BY state_id, action ORDER BY count DESC, next_state_id) AS place, \
         count(*) OVER (PARTITION BY state_id, action) AS edges FROM ({summed})) WHERE {wanted}"
    )
}

fn failures(layers: &[Layer], columns: &[String]) -> String {
    let tables = layers.iter().filter_map(|(failures, _)| failures.as_ref());
    let list = columns.join(", ");
    let parts: Vec<String> =
        tables.map(|table| format!("SELECT {list} FROM \"{table}\"")).collect();
    let summed = merged(columns, &parts, "state_id, state_key, action", &["count"]);
    format!("SELECT {list} FROM ({summed})")
}

/// Returns the SQL that merges rows of equal keys: the columns `added` add up, all others are those
/// of the first step.
fn merged(columns: &[String], parts: &[String], key: &str, added: &[&str]) -> String {
    let is_key = |column: &str| key.split(", ").any(|part| part == column.trim_matches('"'));
    let mut sums = String::new();
    let mut kept = key.to_owned();
    for column in columns.iter().filter(|column| !is_key(column)) {
        if added.contains(&column.trim_matches('"')) {
            write!(sums, ", CAST(sum({column}) OVER (PARTITION BY {key}) AS BIGINT) AS {column}")
        } else {
            write!(sums, ", {column}")
        }
        .expect("a string takes it");
        write!(kept, ", {column}").expect("a string takes it");
    }
    let all = parts.join(" UNION ALL ");
    format!(
        "SELECT {kept} FROM (SELECT {key}{sums}, \
         row_number() OVER (PARTITION BY {key} ORDER BY {FIRST}) AS turn FROM ({all})) WHERE turn = 1"
    )
}
