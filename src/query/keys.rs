//! State ids in filters become filters on state keys, which sort, compare and prune fast.

use std::collections::BTreeSet;

use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, in_list, lit};

use crate::model::StateId;
use crate::store::Segment;

/// A state id column with the key column beside it.
const PAIRS: [(&str, &str); 2] = [("state_id", "state_key"), ("next_state_id", "next_state_key")];

/// The rows that a query asks for have one of these keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyFilter {
    column: &'static str,
    keys: BTreeSet<i64>,
}

impl KeyFilter {
    /// As an expression: `state_key IN (…)`.
    pub(super) fn expr(&self) -> Expr {
        let mut keys = self.keys.iter().map(|&key| lit(key));
        match (self.keys.len(), keys.next()) {
            (1, Some(key)) => Expr::Column(self.column.into()).eq(key),
            (_, first) => in_list(
                Expr::Column(self.column.into()),
                first.into_iter().chain(keys).collect(),
                false,
            ),
        }
    }

    /// Whether `segment` can have such rows, by the range of keys that the manifest holds for it.
    pub(super) fn may_be_in(&self, segment: &Segment) -> bool {
        match segment.key_range {
            Some((first, last)) if self.column == "state_key" => {
                self.keys.range(first..=last).next().is_some()
            }
            _ => true,
        }
    }
}

/// The key filters that follow from `filters`, all of which hold for every row of the answer.
pub(super) fn key_filters(filters: &[Expr], schema: &Schema) -> Vec<KeyFilter> {
    filters
        .iter()
        .flat_map(split_conjunction)
        .filter_map(states_of)
        .filter(|filter| schema.column_with_name(filter.column).is_some())
        .collect()
}

/// The key filter of `state_id = …` and `state_id IN (…)`, either way round.
fn states_of(filter: &Expr) -> Option<KeyFilter> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            one_of(left, std::slice::from_ref(right.as_ref()))
                .or_else(|| one_of(right, std::slice::from_ref(left.as_ref())))
        }
        // Short IN lists reach the scan as a chain of OR.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (mut left, right) = (states_of(left)?, states_of(right)?);
            (left.column == right.column).then(|| {
                left.keys.extend(right.keys);
                left
            })
        }
        Expr::InList(InList { expr, list, negated: false }) => one_of(expr, list),
        _ => None,
    }
}

fn one_of(column: &Expr, values: &[Expr]) -> Option<KeyFilter> {
    let Expr::Column(column) = column else { return None };
    let (_, column) = PAIRS.into_iter().find(|(id, _)| *id == column.name)?;
    let key = |value: &Expr| match value {
        Expr::Literal(value, _) => state_of(value).map(|state| state.key()),
        _ => None,
    };
    let keys = values.iter().map(key).collect::<Option<_>>()?;
    Some(KeyFilter { column, keys })
}

/// The state that a literal of 20 bytes names.
fn state_of(value: &ScalarValue) -> Option<StateId> {
    match value {
        ScalarValue::FixedSizeBinary(_, Some(bytes))
        | ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.as_slice().try_into().ok().map(StateId),
        _ => None,
    }
}
