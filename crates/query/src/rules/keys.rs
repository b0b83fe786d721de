//! State ids in filters become filters on state keys, which sort, compare and prune fast.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::slice;

use arrow::datatypes::Schema;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, in_list, lit};

use steplake_lake::FileRow;
use steplake_model::StateId;

/// A state id column with the key column beside it.
const PAIRS: [(&str, &str); 2] = [("state_id", "state_key"), ("next_state_id", "next_state_key")];

/// A filter on keys that follows from a query's filters: all rows of the answer have one of these
/// keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyFilter {
    /// The name of the key column.
    pub(crate) column: String,
    pub(crate) keys: BTreeSet<i64>,
}

impl KeyFilter {
    /// As an expression: `state_key IN (…)`.
    pub(crate) fn expr(&self) -> Expr {
        let column = Expr::Column(Column::new_unqualified(&self.column));
        let keys: Vec<Expr> = self.keys.iter().map(|&key| lit(key)).collect();
        match keys.as_slice() {
            [key] => column.eq(key.clone()),
            _ => in_list(column, keys, false),
        }
    }

    /// Whether `segment` can have such rows, judging by the range of its leading key in the
    /// manifest.
    pub(crate) fn may_be_in(&self, segment: &FileRow) -> bool {
        let leads = segment.table.key()[0] == self.column;
        match segment.key_range {
            Some((least, greatest)) if leads => self.keys.range(least..=greatest).next().is_some(),
            _ => true,
        }
    }
}

/// The key filters that follow from `filters`, all of which hold for every row of the answer.
pub(crate) fn key_filters(filters: &[Expr], schema: &Schema) -> Vec<KeyFilter> {
    filters
        .iter()
        .flat_map(split_conjunction)
        .filter_map(keys_of)
        .filter(|filter| schema.column_with_name(&filter.column).is_some())
        .collect()
}

/// The key filter of comparisons such as `state_id = …`, in either order, and `episode_id IN (…)`.
fn keys_of(filter: &Expr) -> Option<KeyFilter> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            one_of(left, slice::from_ref(right)).or_else(|| one_of(right, slice::from_ref(left)))
        }
        // Short IN lists reach the scan as a chain of OR.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (mut left, right) = (keys_of(left)?, keys_of(right)?);
            (left.column == right.column).then(|| {
                left.keys.extend(right.keys);
                left
            })
        }
        Expr::InList(InList { expr, list, negated: false }) => one_of(expr, list),
        _ => None,
    }
}

/// The key filter of a column that has one of `values`.
fn one_of(column: &Expr, values: &[impl Borrow<Expr>]) -> Option<KeyFilter> {
    let Expr::Column(column) = column else { return None };
    let pair = PAIRS.into_iter().find(|(id, _)| *id == column.name);
    let key = |value: &Expr| match (value, pair) {
        (Expr::Literal(value, _), Some(_)) => {
            Some(StateId(bytes_of(value)?.try_into().ok()?).key())
        }
        (Expr::Literal(ScalarValue::Int64(number), _), None) => *number,
        _ => None,
    };
    let keys = values.iter().map(|value| key(value.borrow())).collect::<Option<_>>()?;
    let column = pair.map_or(column.name.as_str(), |(_, key)| key);
    Some(KeyFilter { column: column.to_owned(), keys })
}

/// The bytes of a constant.
pub(crate) fn bytes_of(value: &ScalarValue) -> Option<&[u8]> {
    match value {
        ScalarValue::FixedSizeBinary(_, Some(bytes))
        | ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::col;
    use steplake_lake::Table;

    fn filter(filter: &Expr) -> Option<(String, Vec<i64>)> {
        keys_of(filter).map(|filter| (filter.column, filter.keys.into_iter().collect()))
    }

    fn state(first: u8) -> Expr {
        let mut bytes = vec![0; StateId::LEN];
        bytes[7] = first;
        lit(ScalarValue::FixedSizeBinary(20, Some(bytes)))
    }

    #[test]
    fn states_become_keys() {
        let wanted = |keys: &[i64]| Some(("state_key".to_owned(), keys.to_vec()));
        assert_eq!(filter(&col("state_id").eq(state(7))), wanted(&[7]));
        assert_eq!(filter(&state(7).eq(col("state_id"))), wanted(&[7]));
        let either = col("state_id").eq(state(7)).or(col("state_id").eq(state(3)));
        assert_eq!(filter(&either), wanted(&[3, 7]));
        let list = |negated| in_list(col("state_id"), vec![state(1), state(2)], negated);
        assert_eq!(filter(&list(false)), wanted(&[1, 2]));
        let episode = filter(&col("episode_id").eq(lit(5_i64)));
        assert_eq!(episode, Some(("episode_id".to_owned(), vec![5])));
        for other in [
            list(true),
            col("state_id").gt(state(7)),
            col("state_id").eq(col("next_state_id")),
            col("state_id").eq(state(7)).or(col("next_state_id").eq(state(7))),
            col("state_id").eq(state(7)).or(col("x").gt(lit(1))),
        ] {
            assert_eq!(filter(&other), None, "{other}");
        }
    }

    #[test]
    fn segments_are_known_by_the_range_of_their_leading_key() {
        let schema = Schema::new(vec![
            Field::new("state_key", DataType::Int64, false),
            Field::new("episode_id", DataType::Int64, false),
        ]);
        let filters = [col("state_id").eq(state(7)).and(col("episode_id").eq(lit(1_i64)))];
        let filters = key_filters(&filters, &schema);
        let segment = |table, key_range| FileRow {
            table,
            rows: 1,
            bytes: 1,
            digest: String::new(),
            key_range,
            layer: None,
            is_counted: false,
            deletions: None,
        };
        let kept = |segment: &FileRow| filters.iter().all(|filter| filter.may_be_in(segment));
        assert!(kept(&segment(Table::Observations, Some((7, 9)))));
        assert!(!kept(&segment(Table::Observations, Some((8, 9)))));
        assert!(kept(&segment(Table::Steps, Some((0, 1)))));
        assert!(!kept(&segment(Table::Steps, Some((2, 7)))));
        assert!(kept(&segment(Table::Benchmarks, None)));
    }
}
