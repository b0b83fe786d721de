use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::apply;
use crate::lake::{Identity, RecordedObservation};
use crate::query::signatures;
use crate::query::suggestions::{list, near};

/// `feature(vector, 'name')`.
#[derive(Debug)]
pub(super) struct Feature {
    signature: Signature,
    identity: Arc<Identity>,
}

impl Feature {
    pub(super) fn new(identity: Arc<Identity>) -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable), identity }
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// The index of the number `name` in a vector of type `kind` in a column `column`. The
    /// observation space with the column's name comes first; otherwise the length of the vector
    /// decides.
    fn place(&self, column: &str, kind: &DataType, name: &str) -> Result<usize> {
        let DataType::FixedSizeList(_, width) = kind else {
            return plan_err!(
                "feature() wants an observation vector first, not {}",
                signatures::named(kind)
            );
        };
        let candidates = spaces(&self.identity, *width, &[column]);
        let place_in = |space: &&RecordedObservation| {
            space.features.iter().position(|feature| feature == name)
        };
        let mut places: Vec<usize> = candidates.iter().filter_map(place_in).collect();
        places.dedup();
        match places[..] {
            [place] => Ok(place),
            [] => unknown(name, &candidates),
            _ => plan_err!(
                "feature `{name}` is in more than one observation space: use the column itself"
            ),
        }
    }
}

/// The possible observation spaces of vectors of this length: those with the names of the columns,
/// or else all of this length.
pub(super) fn spaces<'a>(
    identity: &'a Identity,
    width: i32,
    columns: &[&str],
) -> Vec<&'a RecordedObservation> {
    let fits = |space: &&RecordedObservation| {
        space.width.is_some_and(|own| i64::from(own) == i64::from(width))
    };
    let all: Vec<&RecordedObservation> = identity.observations.iter().filter(fits).collect();
    let own = all.iter().copied().filter(|space| columns.contains(&space.name.as_str()));
    let own: Vec<&RecordedObservation> = own.collect();
    if own.is_empty() { all } else { own }
}

/// The error about a name that no vector has, with the nearest names.
fn unknown(name: &str, candidates: &[&RecordedObservation]) -> Result<usize> {
    let spaces: Vec<&str> = candidates.iter().map(|space| space.name.as_str()).collect();
    if spaces.is_empty() {
        return plan_err!("no observation space with vectors of this length is recorded");
    }
    let features = || candidates.iter().flat_map(|space| &space.features).map(String::as_str);
    let near = near(name, features());
    let hint = if near.is_empty() {
        let all: Vec<&str> = features().collect();
        format!("there are {}", list(&all))
    } else {
        format!("did you mean {}?", list(&near))
    };
    plan_err!("there is no feature `{name}` in {}: {hint}", list(&spaces))
}

/// The text of a constant.
fn text(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

impl ScalarUDFImpl for Feature {
    fn name(&self) -> &'static str {
        "feature"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    /// A name that is known while planning is checked then, so that the error comes before any
    /// work.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(name) = args.scalar_arguments[1].and_then(text) {
            let vector = &args.arg_fields[0];
            self.place(vector.name(), vector.data_type(), name)?;
        }
        Ok(Arc::new(Field::new(self.name(), DataType::Int64, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(name) = &args.args[1] else {
            return exec_err!("the name that feature() is given must be a constant");
        };
        let Some(name) = text(name) else {
            return exec_err!("the name that feature() is given must be a text");
        };
        let vector = &args.arg_fields[0];
        let place = self.place(vector.name(), vector.data_type(), name)?;
        apply(&args.args[0], |vectors| number_at(vectors, place))
    }
}

/// The number at `place` of each vector.
fn number_at(vectors: &ArrayRef, place: usize) -> Result<ArrayRef> {
    let vectors = vectors.as_fixed_size_list();
    let rows = (0..vectors.len()).map(|row| {
        let start = usize::try_from(vectors.value_offset(row)).ok()?;
        let index = u32::try_from(start + place).ok()?;
        vectors.is_valid(row).then_some(index)
    });
    let numbers = take(vectors.values(), &rows.collect::<UInt32Array>(), None)?;
    debug_assert_eq!(numbers.len(), vectors.len());
    Ok(cast(&numbers, &DataType::Int64)?)
}

impl PartialEq for Feature {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity) || self.identity == other.identity
    }
}

impl Eq for Feature {}

impl Hash for Feature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}
