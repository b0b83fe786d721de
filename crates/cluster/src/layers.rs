//! Derived tables of several layers in SQL. What a scan knows of deleted rows is lost on the way to
//! an executor, so they are found again: see "Layers" in docs/FORMAT.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::ViewTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use steplake::lake::{LayerId, Segment, Snapshot, Table};

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
    let mut names = BTreeMap::new();
    for (layer, segments) in snapshot.layers() {
        // Each (state, action) of a layer has a row in one of these.
        for of_layer in [table, Table::StateTransitions, Table::Failures] {
            let own = segments.iter().copied().filter(|own| own.table == of_layer).cloned();
            let own: Vec<Segment> = own.collect();
            let name = format!("{}_{}", of_layer.name(), layer.0);
            if own.is_empty() || context.table_exist(name.as_str())? {
                continue;
            }
            let provider = ShippedTable::new(&snapshot.schema(of_layer), &own, mount, &[])?;
            context.register_table(&name, Arc::new(provider))?;
            names.insert((layer, of_layer), name);
        }
    }
    let schema = snapshot.schema(table);
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = schema.fields().iter().map(|field| quoted(field.name()));
    let sql = live_rows(&names, table, &columns.collect::<Vec<_>>().join(", "));
    let plan = context.state().create_logical_plan(&sql).await?;
    Ok(Arc::new(ViewTable::new(plan, Some(sql))))
}

/// Returns the SQL for the rows of each layer whose (state, action) no newer layer has.
fn live_rows(names: &BTreeMap<(LayerId, Table), String>, table: Table, columns: &str) -> String {
    let own = names.iter().filter(|((_, of_layer), _)| *of_layer == table);
    let parts = own.map(|((layer, _), name)| {
        let newer = names.iter().filter(|((newer, _), _)| newer > layer);
        let newer = newer.filter(|((_, of_layer), _)| *of_layer != Table::Conflicts);
        // A failure without an action has null there.
        let pairs = newer.map(|(_, name)| {
            format!("SELECT state_id, coalesce(action, -1) AS taken FROM \"{name}\"")
        });
        let pairs = pairs.collect::<Vec<_>>().join(" UNION ALL ");
        let all = format!("SELECT {columns} FROM \"{name}\" AS own");
        if pairs.is_empty() {
            return all;
        }
        format!(
            "{all} WHERE NOT EXISTS (SELECT 1 FROM ({pairs}) AS newer \
             WHERE newer.state_id = own.state_id AND newer.taken = coalesce(own.action, -1))"
        )
    });
    parts.collect::<Vec<_>>().join(" UNION ALL ")
}
