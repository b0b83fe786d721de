//! Values of a lake from the events of a service.

use prost::Message as _;
use steplake::model::{Value, ValueType};

use crate::proto::{Event, Opaque, event};

/// Returns the value of an event in a space of this type; `None` if it is of another kind.
///
/// Numbers of a vector have to fit into 32 bits, as in every lake. Data in a format of its own
/// ([`Opaque`]) counts as its bytes.
pub(super) fn value(event: Event, value_type: ValueType) -> Option<Value> {
    use event::Value as Sent;

    Some(match (value_type, event.value?) {
        (ValueType::Int, Sent::Int64Value(number)) => Value::Int(number),
        (ValueType::Int, Sent::BooleanValue(flag)) => Value::Int(flag.into()),
        (ValueType::Float, Sent::DoubleValue(number)) => Value::Float(number),
        (ValueType::Float, Sent::FloatValue(number)) => Value::Float(number.into()),
        (ValueType::Text, Sent::StringValue(text)) => Value::Text(text),
        (ValueType::Text, Sent::AnyValue(any)) => Value::Text(String::from_utf8(data(&any)?).ok()?),
        (ValueType::Bytes, Sent::ByteTensor(bytes)) => Value::Bytes(bytes.value),
        (ValueType::Bytes, Sent::StringValue(text)) => Value::Bytes(text.into_bytes()),
        (ValueType::Bytes, Sent::AnyValue(any)) => Value::Bytes(data(&any)?),
        (ValueType::IntVector, Sent::Int64Tensor(numbers)) => {
            let numbers = numbers.value.into_iter().map(|number| i32::try_from(number).ok());
            Value::IntVector(numbers.collect::<Option<_>>()?)
        }
        (ValueType::IntVector, Sent::BooleanTensor(flags)) => {
            Value::IntVector(flags.value.into_iter().map(i32::from).collect())
        }
        (ValueType::FloatVector, Sent::DoubleTensor(numbers)) => {
            Value::FloatVector(numbers.value.into())
        }
        (ValueType::FloatVector, Sent::FloatTensor(numbers)) => {
            Value::FloatVector(numbers.value.into_iter().map(f64::from).collect())
        }
        (ValueType::TextList, Sent::StringTensor(texts)) => Value::TextList(texts.value),
        _ => return None,
    })
}

fn data(any: &prost_types::Any) -> Option<Vec<u8>> {
    let is_opaque = any.type_url.ends_with("compiler_gym.Opaque");
    is_opaque.then(|| Opaque::decode(&*any.value).ok())?.map(|opaque| opaque.data)
}

/// The largest integer that a reward, a floating-point number, holds exactly.
const COST_MAX: i64 = 1 << f64::MANTISSA_DIGITS;

/// Returns a cost, if it is one that rewards can be computed from.
#[expect(clippy::cast_precision_loss, reason = "the range is checked")]
pub(super) fn cost(value: &Value) -> Option<f64> {
    match *value {
        Value::Int(cost) if (-COST_MAX..=COST_MAX).contains(&cost) => Some(cost as f64),
        Value::Float(cost) if cost.is_finite() => Some(cost),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Int64Tensor;

    fn sent(value: event::Value) -> Event {
        Event { optional_type_id: None, value: Some(value) }
    }

    #[test]
    fn an_event_of_another_kind_is_no_value() {
        let numbers = |value: Vec<i64>| {
            sent(event::Value::Int64Tensor(Int64Tensor { shape: vec![value.len() as u64], value }))
        };
        let vector = value(numbers(vec![1, -2]), ValueType::IntVector);
        assert_eq!(vector, Some(Value::IntVector([1, -2].into())));
        assert_eq!(value(numbers(vec![1 << 31]), ValueType::IntVector), None);
        assert_eq!(value(numbers(vec![1]), ValueType::Int), None);
        assert_eq!(value(Event::default(), ValueType::Int), None);
        let text = sent(event::Value::StringValue("ab".into()));
        assert_eq!(value(text, ValueType::Bytes), Some(Value::Bytes(b"ab".to_vec())));
    }

    #[test]
    fn costs_are_exact() {
        assert_eq!(cost(&Value::Int(COST_MAX)), Some(9_007_199_254_740_992.0));
        assert_eq!(cost(&Value::Int(COST_MAX + 1)), None);
        assert_eq!([cost(&Value::Float(0.5)), cost(&Value::Float(f64::NAN))], [Some(0.5), None]);
    }
}
