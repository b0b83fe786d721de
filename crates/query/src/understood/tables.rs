//! Tables after FROM, and joins.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    FunctionArg, Join, JoinConstraint, JoinOperator, TableAlias, TableAliasColumnDef, TableFactor,
    TableFunctionArgs, TableSampleKind, TableWithJoins,
};

use super::refusal::{CheckFlow, absent, none_of, not_set, refused};

pub(super) fn joined(table: &TableWithJoins) -> CheckFlow {
    let TableWithJoins { relation: _, joins } = table;
    joins.iter().try_for_each(join)
}

pub(super) fn join(join: &Join) -> CheckFlow {
    let Join { relation: _, global, join_operator } = join;
    not_set(*global, "GLOBAL JOIN", "write JOIN")?;
    match join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => match constraint {
            JoinConstraint::On(_)
            | JoinConstraint::Using(_)
            | JoinConstraint::Natural
            | JoinConstraint::None => ControlFlow::Continue(()),
        },
        JoinOperator::CrossJoin(JoinConstraint::None) => ControlFlow::Continue(()),
        _ => refused(&join.to_string().trim(), "write JOIN, LEFT JOIN or LEFT SEMI JOIN … ON"),
    }
}

pub(super) fn alias(alias: Option<&TableAlias>) -> CheckFlow {
    let Some(TableAlias { explicit: _, name: _, columns, at }) = alias else {
        return ControlFlow::Continue(());
    };
    absent(at.as_ref(), "AT", "leave it out")?;
    for TableAliasColumnDef { name, data_type } in columns {
        absent(data_type.as_ref(), &name.to_string(), "leave the type out, and cast the column")?;
    }
    ControlFlow::Continue(())
}

/// Subqueries and expressions in a table are visited by themselves.
pub(super) fn table(table: &TableFactor) -> CheckFlow {
    match table {
        TableFactor::Table { .. } => named(table),
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            sampled(sample.as_ref())?;
            self::alias(alias.as_ref())
        }
        TableFactor::Function { lateral: _, name: _, args, with_ordinality, alias } => {
            not_set(*with_ordinality, "WITH ORDINALITY", ORDINALITY)?;
            positional(args)?;
            self::alias(alias.as_ref())
        }
        TableFactor::UNNEST {
            alias,
            array_exprs: _,
            with_offset,
            with_offset_alias: _,
            with_ordinality,
        } => {
            not_set(*with_offset, "WITH OFFSET", ORDINALITY)?;
            not_set(*with_ordinality, "WITH ORDINALITY", ORDINALITY)?;
            self::alias(alias.as_ref())
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            joined(table_with_joins)?;
            self::alias(alias.as_ref())
        }
        other => refused(other, "write it with SELECT, JOIN and CASE"),
    }
}

const ORDINALITY: &str = "number the rows with row_number()";

/// A table by its name, or a table function.
fn named(table: &TableFactor) -> CheckFlow {
    let TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_hints,
    } = table
    else {
        return ControlFlow::Continue(());
    };
    if let Some(TableFunctionArgs { args, settings }) = args {
        none_of(settings.as_deref().unwrap_or_default(), "SETTINGS", "leave it out")?;
        positional(args)?;
        // Planning looks at the first part of the name alone.
        if name.0.len() > 1 {
            return refused(&format!("{name}()"), "a table function has a name without a schema");
        }
    }
    none_of(with_hints, "WITH", "leave it out")?;
    absent(version.as_ref(), "", "ask at a snapshot instead")?;
    not_set(*with_ordinality, "WITH ORDINALITY", ORDINALITY)?;
    none_of(partitions, "PARTITION", "filter with WHERE")?;
    absent(json_path.as_ref(), "", "leave it out")?;
    sampled(sample.as_ref())?;
    none_of(index_hints, "", "leave it out")?;
    self::alias(alias.as_ref())
}

/// Refuses arguments with names, which planning leaves out.
fn positional(args: &[FunctionArg]) -> CheckFlow {
    for arg in args {
        match arg {
            FunctionArg::Unnamed(_) => {}
            named => return refused(named, "give the arguments by their places, without names"),
        }
    }
    ControlFlow::Continue(())
}

fn sampled(sample: Option<&TableSampleKind>) -> CheckFlow {
    let instead = "filter with WHERE random() < 0.1, or cut with LIMIT";
    match sample {
        Some(TableSampleKind::BeforeTableAlias(s) | TableSampleKind::AfterTableAlias(s)) => {
            refused(&s.to_string().trim(), instead)
        }
        None => ControlFlow::Continue(()),
    }
}
