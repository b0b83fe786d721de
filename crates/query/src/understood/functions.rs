//! Calls of functions. What a call may have besides its arguments depends on the kind of function.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::logical_expr::AggregateUDF;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, NullTreatment, SelectItem, Spanned as _, Visit,
    Visitor, WindowFrame, WindowSpec, WindowType,
};

use super::refusal::{CheckFlow, absent, not_set, refused, refused_at, sort_key, wildcard};
use crate::errors::error::QueryError;

/// The aggregates that count each value once after DISTINCT, or whose result does not depend on it.
/// The others would leave the word out.
const DISTINCT: [&str; 25] = [
    "any_value",
    "approx_distinct",
    "approx_median",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "first_value",
    "last_value",
    "max",
    "median",
    "min",
    "percentile_cont",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
    // One list of actions, however often a join repeats its rows.
    "action_list",
    "grouping",
];

/// The window functions that read IGNORE NULLS.
const NULL_TREATMENT: [&str; 5] = ["first_value", "lag", "last_value", "lead", "nth_value"];

/// The kinds of functions in the order in which planning looks for them.
enum ResolvedFunction<'a> {
    Scalar,
    Aggregate(&'a AggregateUDF),
    Window,
    /// Planning says that there is no such function.
    Unknown,
}

/// `is_over_name`: planning understands `OVER name` behind this call.
pub(super) fn call(state: &SessionState, call: &Function, is_over_name: bool) -> CheckFlow {
    let Function {
        name,
        uses_odbc_syntax: _,
        parameters,
        args,
        filter,
        null_treatment,
        over,
        within_group,
    } = call;
    let clauses = Clauses::of(args)?;
    match parameters {
        FunctionArguments::None => {}
        FunctionArguments::Subquery(_) | FunctionArguments::List(_) => {
            let arguments = "give all arguments in one pair of brackets";
            return refused_at(&format!("{name}{parameters}(…)"), arguments, call.span());
        }
    }
    within_group.iter().try_for_each(sort_key)?;
    match over {
        Some(WindowType::WindowSpec(spec)) => window(spec)?,
        Some(WindowType::NamedWindow(window)) if !is_over_name => {
            let outside = "outside the columns of SELECT, write the window out";
            return refused_at(&format!("OVER {window}"), outside, call.span());
        }
        Some(WindowType::NamedWindow(_)) | None => {}
    }
    let nulls = null_treatment.or(clauses.nulls);
    let of = |part: &str| format!("{name}(…) {part}");
    match kind(state, &name.to_string(), over.is_some()) {
        ResolvedFunction::Unknown => ControlFlow::Continue(()),
        ResolvedFunction::Scalar => {
            let plain = "it is for functions of several rows";
            not_set(filter.is_some(), &of("FILTER"), plain)?;
            not_set(over.is_some(), &of("OVER"), plain)?;
            not_set(!within_group.is_empty(), &of("WITHIN GROUP"), plain)?;
            absent(nulls.as_ref(), &of(""), plain)?;
            absent(clauses.duplicates.as_ref(), &of("with"), plain)?;
            not_set(clauses.is_ordered, &of("with ORDER BY"), plain)
        }
        ResolvedFunction::Aggregate(aggregate) => {
            let is_distinct = matches!(clauses.duplicates, Some(DuplicateTreatment::Distinct));
            if is_distinct && !DISTINCT.contains(&aggregate.name()) {
                return refused(&of("with DISTINCT"), "ask over SELECT DISTINCT");
            }
            if over.is_some() && !aggregate.supports_null_handling_clause() {
                absent(nulls.as_ref(), &of(""), "filter with FILTER (WHERE … IS NOT NULL)")?;
            }
            ControlFlow::Continue(())
        }
        ResolvedFunction::Window => {
            not_set(filter.is_some(), &of("FILTER"), "filter the rows before, in a subquery")?;
            absent(clauses.duplicates.as_ref(), &of("with"), "ask over SELECT DISTINCT")?;
            if !NULL_TREATMENT.contains(&name.to_string().to_lowercase().as_str()) {
                absent(nulls.as_ref(), &of(""), "filter the rows before, in a subquery")?;
            }
            ControlFlow::Continue(())
        }
    }
}

/// The kind of the function that planning finds.
fn kind<'a>(state: &'a SessionState, name: &str, is_over: bool) -> ResolvedFunction<'a> {
    let name = name.trim_matches('"').to_lowercase();
    let is_scalar = state.scalar_functions().contains_key(&name)
        || state.higher_order_functions().contains_key(&name)
        || matches!(name.as_str(), "map" | "make_map" | "unnest" | "unnest_outer");
    if is_scalar {
        return ResolvedFunction::Scalar;
    }
    let window_first = ["first_value", "last_value", "nth_value"];
    match state.aggregate_functions().get(&name) {
        Some(aggregate) if !is_over || !window_first.contains(&aggregate.name()) => {
            ResolvedFunction::Aggregate(aggregate)
        }
        _ if is_over && state.window_functions().contains_key(&name) => ResolvedFunction::Window,
        _ => ResolvedFunction::Unknown,
    }
}

/// What stands in the brackets of a call besides its arguments.
struct Clauses {
    duplicates: Option<DuplicateTreatment>,
    nulls: Option<NullTreatment>,
    is_ordered: bool,
}

impl Clauses {
    fn of(args: &FunctionArguments) -> ControlFlow<QueryError, Self> {
        let mut found = Self { duplicates: None, nulls: None, is_ordered: false };
        let list = match args {
            FunctionArguments::None => return ControlFlow::Continue(found),
            FunctionArguments::List(list) => list,
            FunctionArguments::Subquery(_) => {
                refused(args, "gather the rows with array_agg()")?;
                return ControlFlow::Continue(found);
            }
        };
        let FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        found.duplicates = *duplicate_treatment;
        args.iter().try_for_each(argument)?;
        for clause in clauses {
            match clause {
                FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => found.nulls = Some(*nulls),
                FunctionArgumentClause::OrderBy(keys) => {
                    keys.iter().try_for_each(sort_key)?;
                    found.is_ordered = true;
                }
                other => refused(other, "leave it out of the brackets")?,
            }
        }
        ControlFlow::Continue(found)
    }
}

fn argument(argument: &FunctionArg) -> CheckFlow {
    let value = match argument {
        FunctionArg::Named { name: _, arg, operator: _ }
        | FunctionArg::ExprNamed { name: Expr::Identifier(_), arg, operator: _ }
        | FunctionArg::Unnamed(arg) => arg,
        other @ FunctionArg::ExprNamed { .. } => {
            return refused(other, "name an argument by a word, or not at all");
        }
    };
    match value {
        FunctionArgExpr::Expr(_)
        | FunctionArgExpr::QualifiedWildcard(_)
        | FunctionArgExpr::Wildcard => ControlFlow::Continue(()),
        FunctionArgExpr::WildcardWithOptions(options) => {
            wildcard(options)?;
            refused(argument, "name the columns")
        }
    }
}

pub(super) fn window(window: &WindowSpec) -> CheckFlow {
    let WindowSpec { window_name, partition_by: _, order_by, window_frame } = window;
    absent(window_name.as_ref(), "OVER (…) with the window", "write that window out")?;
    order_by.iter().try_for_each(sort_key)?;
    if let Some(WindowFrame { units: _, start_bound: _, end_bound: _ }) = window_frame {}
    ControlFlow::Continue(())
}

/// The calls with `OVER name` in the columns of a SELECT.
pub(super) fn over_names(projection: &[SelectItem]) -> Vec<*const Function> {
    struct OverNames(Vec<*const Function>);
    impl Visitor for OverNames {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr
                && let Some(WindowType::NamedWindow(_)) = call.over
            {
                self.0.push(call);
            }
            ControlFlow::Continue(())
        }
    }
    let mut found = OverNames(Vec::new());
    for item in projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } = item {
            let _ = expr.visit(&mut found);
        }
    }
    found.0
}
