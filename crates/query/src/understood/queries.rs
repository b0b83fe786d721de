//! Statements, queries and their clauses.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, DescribeAlias, ExprWithAlias, ExprWithAliasAndOrderBy, GroupByExpr, LimitClause,
    NamedWindowDefinition, NamedWindowExpr, Offset, OrderBy, OrderByKind, OrderByOptions,
    PipeOperator, Query, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, SetQuantifier, Statement, Values, With,
};

use super::refusal::{
    CheckFlow, absent, none_of, not_set, order_by_all, refused, sort_key, wildcard,
};
use super::{functions, tables};
use crate::errors::error::QueryError;

const LEAVE_OUT: &str = "leave it out";

/// The parts of a statement that stand beside its query.
pub(super) fn statement(statement: &Statement) -> CheckFlow {
    match statement {
        Statement::Explain {
            describe_alias: DescribeAlias::Describe | DescribeAlias::Desc,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement: _,
            format,
            options,
        } => {
            not_set(*analyze, "ANALYZE", "write EXPLAIN ANALYZE")?;
            not_set(*verbose, "VERBOSE", "write EXPLAIN VERBOSE")?;
            not_set(*query_plan, "QUERY PLAN", "write EXPLAIN")?;
            not_set(*estimate, "ESTIMATE", LEAVE_OUT)?;
            absent(format.as_ref(), "FORMAT", LEAVE_OUT)?;
            none_of(options.as_deref().unwrap_or_default(), "", LEAVE_OUT)
        }
        // The parser of DataFusion reads any other EXPLAIN by itself, and its planner refuses what
        // it does not know.
        Statement::ExplainTable {
            describe_alias: _,
            hive_format,
            has_table_keyword,
            table_name,
        } => {
            absent(hive_format.as_ref(), "", LEAVE_OUT)?;
            not_set(*has_table_keyword, "TABLE", &format!("write DESCRIBE {table_name}"))
        }
        _ => ControlFlow::Continue(()),
    }
}

pub(super) fn query(query: &Query) -> CheckFlow {
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    if let Some(with) = with {
        common_tables(with)?;
    }
    self::body(body)?;
    if let Some(order_by) = order_by {
        ordered(order_by)?;
    }
    match limit_clause {
        Some(LimitClause::LimitOffset { limit: _, offset, limit_by }) => {
            if let Some(Offset { value: _, rows: _ }) = offset {}
            none_of(limit_by, "LIMIT … BY", "number the rows with row_number()")?;
        }
        Some(LimitClause::OffsetCommaLimit { offset: _, limit: _ }) | None => {}
    }
    absent(fetch.as_ref(), "", "write LIMIT")?;
    none_of(locks, "", "a lake is only read, so leave it out")?;
    absent(for_clause.as_ref(), "", LEAVE_OUT)?;
    none_of(settings.as_deref().unwrap_or_default(), "SETTINGS", LEAVE_OUT)?;
    absent(format_clause.as_ref(), "", "whoever asks names a format")?;
    pipe_operators.iter().try_for_each(pipe_operator)
}

/// The queries of a WITH.
fn common_tables(with: &With) -> CheckFlow {
    let With { with_token: _, recursive, cte_tables } = with;
    for table in cte_tables {
        let Cte { alias, query, from, materialized, closing_paren_token: _ } = table;
        tables::alias(Some(alias))?;
        absent(from.as_ref(), "FROM", LEAVE_OUT)?;
        absent(materialized.as_ref(), "AS", "leave the word out")?;
        if *recursive
            && let SetExpr::SetOperation { op: SetOperator::Union, .. } = query.body.as_ref()
        {
            only_body(query)?;
        }
    }
    ControlFlow::Continue(())
}

/// Of a query of WITH RECURSIVE, planning reads only the UNION.
fn only_body(query: &Query) -> CheckFlow {
    let outside = "write it in the query that reads the table of WITH RECURSIVE";
    let Query {
        with,
        body: _,
        order_by,
        limit_clause,
        // These are refused everywhere.
        fetch: _,
        locks: _,
        for_clause: _,
        settings: _,
        format_clause: _,
        pipe_operators,
    } = query;
    absent(with.as_ref(), "", "write it as another query of the same WITH")?;
    absent(order_by.as_ref(), "", outside)?;
    absent(limit_clause.as_ref(), "", outside)?;
    none_of(pipe_operators, "|>", outside)
}

/// The SELECTs in a body are visited by themselves.
fn body(body: &SetExpr) -> CheckFlow {
    match body {
        SetExpr::Select(_) | SetExpr::Query(_) => ControlFlow::Continue(()),
        SetExpr::SetOperation {
            op: op @ (SetOperator::Except | SetOperator::Intersect),
            set_quantifier: SetQuantifier::All,
            left: _,
            right: _,
        } => refused(
            &format!("{op} ALL"),
            "number equal rows with row_number() OVER (PARTITION BY …), and leave ALL out",
        ),
        SetExpr::SetOperation {
            op: SetOperator::Union | SetOperator::Except | SetOperator::Intersect,
            set_quantifier: _,
            left,
            right,
        } => {
            self::body(left)?;
            self::body(right)
        }
        SetExpr::SetOperation { op: SetOperator::Minus, .. } => refused(&"MINUS", "write EXCEPT"),
        SetExpr::Values(Values { explicit_row: _, value_keyword, rows: _ }) => {
            not_set(*value_keyword, "VALUE", "write VALUES")
        }
        SetExpr::Table(table) => refused(table, "write SELECT * FROM"),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
            let text = body.to_string();
            let verb = text.split_whitespace().next().unwrap_or_default().to_uppercase();
            ControlFlow::Break(QueryError::ReadOnly(verb))
        }
    }
}

fn ordered(order_by: &OrderBy) -> CheckFlow {
    let OrderBy { kind, interpolate } = order_by;
    if interpolate.is_some() {
        return refused(&"INTERPOLATE", LEAVE_OUT);
    }
    match kind {
        OrderByKind::All(OrderByOptions { asc: _, nulls_first: _ }) => order_by_all(),
        OrderByKind::Expressions(exprs) => exprs.iter().try_for_each(sort_key),
    }
}

pub(super) fn select(select: &Select) -> CheckFlow {
    let Select {
        select_token: _,
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    if into.is_some() {
        return ControlFlow::Break(QueryError::ReadOnly("SELECT INTO".to_owned()));
    }
    absent(select_modifiers.as_ref(), "", LEAVE_OUT)?;
    absent(top.as_ref(), "", "write LIMIT")?;
    absent(exclude.as_ref(), "", "write it after the star, as in SELECT * EXCLUDE (…)")?;
    none_of(lateral_views, "", "write FROM t, unnest(…)")?;
    absent(prewhere.as_ref(), "PREWHERE", "write WHERE")?;
    none_of(connect_by, "", "write WITH RECURSIVE")?;
    none_of(cluster_by, "CLUSTER BY", "write ORDER BY")?;
    none_of(distribute_by, "DISTRIBUTE BY", LEAVE_OUT)?;
    none_of(sort_by, "SORT BY", "write ORDER BY")?;
    absent(value_table_mode.as_ref(), "SELECT", "write SELECT and the columns")?;
    match flavor {
        SelectFlavor::Standard | SelectFlavor::FromFirst => {}
        SelectFlavor::FromFirstNoSelect => {
            return refused(&"FROM without SELECT", "write SELECT * FROM");
        }
    }
    match group_by {
        GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => none_of(
            modifiers,
            "GROUP BY …",
            "write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)",
        )?,
    }
    projection.iter().try_for_each(select_item)?;
    named_window.iter().try_for_each(named_window_of)?;
    from.iter().try_for_each(tables::joined)
}

fn named_window_of(window: &NamedWindowDefinition) -> CheckFlow {
    let NamedWindowDefinition(_, window) = window;
    match window {
        NamedWindowExpr::WindowSpec(window) => functions::window(window),
        NamedWindowExpr::NamedWindow(name) => {
            refused(&format!("WINDOW … AS {name}"), "write the window out")
        }
    }
}

fn select_item(item: &SelectItem) -> CheckFlow {
    match item {
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { expr: _, alias: _ } => {
            ControlFlow::Continue(())
        }
        SelectItem::Wildcard(options) => wildcard(options),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), options) => {
            wildcard(options)
        }
        other => refused(other, "name each column"),
    }
}

fn pipe_operator(operator: &PipeOperator) -> CheckFlow {
    match operator {
        PipeOperator::Where { expr: _ }
        | PipeOperator::Limit { expr: _, offset: _ }
        | PipeOperator::As { alias: _ }
        | PipeOperator::Union { set_quantifier: _, queries: _ }
        | PipeOperator::Intersect { set_quantifier: _, queries: _ }
        | PipeOperator::Except { set_quantifier: _, queries: _ } => ControlFlow::Continue(()),
        PipeOperator::OrderBy { exprs } => exprs.iter().try_for_each(sort_key),
        PipeOperator::Select { exprs } | PipeOperator::Extend { exprs } => {
            exprs.iter().try_for_each(select_item)
        }
        PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
            full_table_exprs.iter().chain(group_by_expr).try_for_each(aggregated)
        }
        PipeOperator::Join(join) => tables::join(join),
        other => refused(&format!("|> {other}"), "write it as a SELECT"),
    }
}

fn aggregated(item: &ExprWithAliasAndOrderBy) -> CheckFlow {
    let ExprWithAliasAndOrderBy {
        expr: ExprWithAlias { expr: _, alias: _ },
        order_by: OrderByOptions { asc, nulls_first },
    } = item;
    let is_ordered = asc.is_some() || nulls_first.is_some();
    not_set(is_ordered, "|> AGGREGATE … ASC or DESC", "write |> ORDER BY after it")
}
