//! One engine over the contexts of a lake, or over several lakes.
//!
//! The tables and views of each context are a schema of its name. Those of the engine itself are
//! their union, with a first column `context` that has the name. A column that some contexts lack
//! is null in their rows. One whose types have nothing in common stays out of the union. A filter
//! on `context` is decided while a statement is planned, so the other contexts are not read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::catalog::{CatalogProvider, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Result, ScalarValue, TableReference, plan_datafusion_err};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, ident, lit};
use steplake_model::suggestions::{list, meant};

use super::engine::Engine;
use super::options::EngineOptions;
use super::session;
use crate::bounded;
use crate::errors::error::QueryError;
use crate::errors::explain::{ErrorContext, SCHEMA, explain};
use crate::functions::{self, ContextIdentity};
use crate::graph::TableFunction;
use steplake_lake::Table;

/// The column with the name of a row's context.
pub(crate) const CONTEXT: &str = "context";

impl Engine {
    /// Joins the engines of contexts, which have different names, to one over all of them. An
    /// engine that is alone keeps everything that it has, and its tables are a schema as well.
    ///
    /// Table functions over the transition graph take the name of a context before their other
    /// arguments. So do `action_name` and `commandline`, unless the actions of all contexts are the
    /// same. `ir()` looks for a state in one context after the other. Named queries are refused:
    /// ask the engine of one context.
    ///
    /// # Errors
    ///
    /// [`QueryError::Sql`] if there is no engine, or two have one name, and [`QueryError::Failed`]
    /// when the joint one cannot be set up.
    pub async fn over(
        mut engines: Vec<(String, Self)>,
        options: &EngineOptions,
    ) -> std::result::Result<Self, QueryError> {
        if engines.len() < 2 {
            let Some((name, engine)) = engines.pop() else {
                return Err(QueryError::sql("there is no lake to ask", None));
            };
            let (catalog, schema) = engine.catalog();
            catalog.register_schema(&name, schema).map_err(failed)?;
            return Ok(engine);
        }
        let mut names: Vec<&str> = engines.iter().map(|(name, _)| name.as_str()).collect();
        names.extend([SCHEMA, "information_schema"]);
        names.sort_unstable();
        if let Some([taken, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let said = format!("a context cannot be called `{taken}` here: another has the name");
            return Err(QueryError::sql(said, None));
        }
        joined(engines, options).await.map_err(failed)
    }
}

async fn joined(engines: Vec<(String, Engine)>, options: &EngineOptions) -> Result<Engine> {
    let context = session::context(options)?;
    let first = &engines[0].1;
    let mut all = Engine {
        context,
        contexts: Vec::new(),
        identity: Arc::clone(&first.identity),
        tables: Vec::new(),
        rows: HashMap::new(),
        segments: HashMap::new(),
        backend: None,
        counted: first.counted.clone(),
        ir: engines.iter().flat_map(|(_, engine)| engine.ir.clone()).collect(),
    };
    let (catalog, unions) = all.catalog();
    for (name, engine) in &engines {
        catalog.register_schema(name, engine.catalog().1)?;
        engine.counted.name_schema(name);
    }
    for table in &first.tables {
        let union = union_of(&*catalog, &engines, table).await?;
        unions.register_table(table.clone(), Arc::new(ViewTable::new(union, None)))?;
        all.tables.push(table.clone());
    }
    for (name, engine) in &engines {
        for table in &engine.tables {
            let qualified = format!("{name}.{table}");
            if let Some(rows) = engine.rows_of(table) {
                *all.rows.entry(table.clone()).or_default() += rows;
                all.rows.insert(qualified.clone(), rows);
            }
            all.tables.push(qualified);
        }
        for table in Table::ALL.map(Table::name) {
            let segments = engine.segments.get(table).into_iter().flatten().cloned();
            all.segments.entry(table).or_default().extend(segments);
        }
    }
    register_functions(&all, &engines)?;
    all.contexts = engines.into_iter().map(|(name, _)| name).collect();
    Ok(all)
}

/// The functions of the field, over all contexts.
fn register_functions(all: &Engine, engines: &[(String, Engine)]) -> Result<()> {
    let state = all.context.state_ref();
    let identities = engines.iter().map(|(name, engine)| ContextIdentity {
        name: name.clone(),
        identity: Arc::clone(&engine.identity),
    });
    let identities: Vec<ContextIdentity> = identities.collect();
    functions::register(&mut *state.write(), &identities, all.ir.clone())?;
    bounded::register(&mut *state.write())?;
    for function in TableFunction::ALL {
        let of_context = |(name, engine): &(String, Engine)| {
            let known = engine.context.state();
            let own = known.table_functions().get(function.name)?;
            Some((name.clone(), Arc::clone(own.function())))
        };
        let contexts = engines.iter().filter_map(of_context).collect();
        let function = InContext { usage: function.usage(), contexts };
        all.context.register_udtf(function.name(), Arc::new(function));
    }
    Ok(())
}

/// The rows of a table or view of all contexts, with their context.
async fn union_of(
    catalog: &dyn CatalogProvider,
    engines: &[(String, Engine)],
    table: &str,
) -> Result<LogicalPlan> {
    let mut providers = Vec::new();
    for (name, _) in engines {
        let schema = catalog.schema(name).expect("it was registered above");
        let provider = schema.table(table).await?;
        providers.push((name, provider.expect("all lakes have the same tables")));
    }
    let columns = common_columns(providers.iter().map(|(_, provider)| provider));
    let mut union: Option<LogicalPlanBuilder> = None;
    for (name, provider) in providers {
        let own = provider.schema();
        let columns = columns.iter().map(|column| {
            let name = column.name().as_str();
            let value = match own.field_with_name(name) {
                Ok(field) if field.data_type() == column.data_type() => ident(name),
                Ok(_) => cast(ident(name), column.data_type().clone()),
                // With the metadata of the others, so that functions of a space take it.
                Err(_lacks_it) => {
                    let metadata = FieldMetadata::from(column.metadata().clone());
                    Expr::Literal(ScalarValue::try_from(column.data_type())?, Some(metadata))
                }
            };
            Ok(value.alias(name))
        });
        let columns = columns.collect::<Result<Vec<Expr>>>()?;
        let context = lit(name.as_str()).alias(CONTEXT);
        let scanned = TableReference::partial(name.as_str(), table);
        let rows = LogicalPlanBuilder::scan(scanned, provider_as_source(provider), None)?
            .project(std::iter::once(context).chain(columns))?;
        union = Some(match union {
            None => rows,
            Some(before) => before.union(rows.build()?)?,
        });
    }
    union.expect("there are at least two contexts").build()
}

/// The columns of tables, in the order in which they first occur, each with a type for the values
/// of all that have it. One that means different things, such as a space with other features, is
/// left out.
fn common_columns<'a>(tables: impl Iterator<Item = &'a Arc<dyn TableProvider>>) -> Vec<Field> {
    let mut columns: Vec<(String, Option<Field>)> = Vec::new();
    for table in tables {
        for field in table.schema().fields() {
            let field = field.as_ref().clone().with_nullable(true);
            match columns.iter_mut().find(|(name, _)| name == field.name()) {
                None => columns.push((field.name().clone(), Some(field))),
                Some((_, known)) => {
                    let same = known.take().filter(|known| known.metadata() == field.metadata());
                    *known = same.and_then(|known| {
                        let kind = common_type(known.data_type().clone(), field.data_type())?;
                        Some(known.with_data_type(kind))
                    });
                }
            }
        }
    }
    columns.into_iter().filter_map(|(_, column)| column).collect()
}

/// A type for the values of both; none if they have nothing in common.
fn common_type(one: DataType, other: &DataType) -> Option<DataType> {
    if one == *other {
        return Some(one);
    }
    if one.is_integer() && other.is_integer() {
        return Some(DataType::Int64);
    }
    (one.is_numeric() && other.is_numeric()).then_some(DataType::Float64)
}

/// A table function that works on one context, whose name is its first argument.
#[derive(Debug)]
struct InContext {
    /// How it is called over one context.
    usage: &'static str,
    contexts: Vec<(String, Arc<dyn TableFunctionImpl>)>,
}

impl InContext {
    fn name(&self) -> &'static str {
        self.usage.split('(').next().unwrap_or(self.usage)
    }

    /// How it is called.
    fn usage(&self) -> String {
        match self.usage.split_once('(') {
            Some((name, ")")) => format!("{name}('CONTEXT')"),
            Some((name, rest)) if rest.starts_with('[') => {
                format!("{name}('CONTEXT' [, {}", rest.trim_start_matches(['[', ' ', ',']))
            }
            Some((name, rest)) => format!("{name}('CONTEXT', {rest}"),
            None => self.usage.to_owned(),
        }
    }
}

impl TableFunctionImpl for InContext {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let names: Vec<&str> = self.contexts.iter().map(|(name, _)| name.as_str()).collect();
        let wanted = match args.exprs().first() {
            Some(Expr::Literal(value, _)) => value.try_as_str().flatten(),
            _ => None,
        };
        let Some(wanted) = wanted else {
            return Err(plan_datafusion_err!(
                "{}: its first argument is the name of a context: there are {}",
                self.usage(),
                list(&names)
            ));
        };
        let Some((_, function)) = self.contexts.iter().find(|(name, _)| name == wanted) else {
            let usage = self.usage();
            return Err(plan_datafusion_err!(
                "{usage}: there is no context `{wanted}`: {}",
                meant(wanted, &names)
            ));
        };
        function.call_with_args(TableFunctionArgs::new(&args.exprs()[1..], args.session()))
    }
}

/// An error while the engine is set up, which is not about a user's text.
fn failed(error: datafusion::common::DataFusionError) -> QueryError {
    explain(error, &ErrorContext::default())
}
