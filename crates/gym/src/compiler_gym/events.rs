//! Values as events, and actions from events.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::Any;
use steplake::model::{ActionIndex, List, Lists, Texts, Value};
use tonic::Status;

use crate::proto::{
    ByteTensor, DictEvent, DoubleTensor, Event, Int64Tensor, Opaque, StringTensor, event,
};

/// The URL of a message's type in an `Any`, up to its name.
pub(super) const TYPE_URL: &str = "type.googleapis.com/compiler_gym.";

/// The event of a value that is not there.
pub(super) const UNSET: Event = Event { optional_type_id: None, value: None };

fn event_of(value: event::Value) -> Event {
    Event { optional_type_id: None, value: Some(value) }
}

pub(super) fn int(value: i64) -> Event {
    event_of(event::Value::Int64Value(value))
}

pub(super) fn flag(value: bool) -> Event {
    event_of(event::Value::BooleanValue(value))
}

pub(super) fn text(value: String) -> Event {
    event_of(event::Value::StringValue(value))
}

pub(super) fn ints(value: Vec<i64>) -> Event {
    event_of(event::Value::Int64Tensor(tensor(value)))
}

/// Bytes whose format the client knows by this name.
pub(super) fn opaque(format: &str, data: impl Into<Vec<u8>>) -> Event {
    let message = Opaque { format: format.to_owned(), data: data.into() };
    let type_url = format!("{TYPE_URL}Opaque");
    event_of(event::Value::AnyValue(Any { type_url, value: message.encode_to_vec() }))
}

/// A tensor of one dimension.
pub(super) fn tensor(value: Vec<i64>) -> Int64Tensor {
    Int64Tensor { shape: shape(value.len()), value }
}

fn shape(items: usize) -> Vec<u64> {
    vec![items as u64]
}

fn texts(value: Vec<String>) -> Event {
    event_of(event::Value::StringTensor(StringTensor { shape: shape(value.len()), value }))
}

/// The event of an observation.
pub(super) fn of_value(value: Value) -> Event {
    match value {
        Value::Int(value) => int(value),
        Value::Float(value) => event_of(event::Value::DoubleValue(value)),
        Value::Text(value) => text(value),
        Value::Bytes(value) => {
            event_of(event::Value::ByteTensor(ByteTensor { shape: shape(value.len()), value }))
        }
        Value::IntVector(value) => ints(value.iter().map(|&number| number.into()).collect()),
        Value::FloatVector(value) => {
            let value = value.into_vec();
            event_of(event::Value::DoubleTensor(DoubleTensor { shape: shape(value.len()), value }))
        }
        Value::TextList(value) => texts(value),
        Value::Lists(lists) => event_of(event::Value::EventDict(dict(&lists))),
    }
}

fn dict(lists: &Lists) -> DictEvent {
    let list = |list: &List| match list {
        List::Int8(items) => ints(items.iter().map(|&item| item.into()).collect()),
        List::Int32(items) => ints(items.iter().map(|&item| item.into()).collect()),
        List::Text(items) => texts(Texts::iter(items).map(str::to_owned).collect()),
    };
    let event = lists.named().map(|(name, items)| (name.to_owned(), list(items)));
    DictEvent { event: event.collect::<BTreeMap<_, _>>() }
}

/// The action that an event names, in a space of `len` actions. Clients know the first words of the
/// errors, and the range.
///
/// # Errors
///
/// `INVALID_ARGUMENT` if it names none.
pub(super) fn action(event: &Event, len: usize) -> Result<ActionIndex, Status> {
    let Some(event::Value::Int64Value(index)) = event.value else {
        return Err(Status::invalid_argument(
            "Invalid action, int64_value expected: send its place in the action space",
        ));
    };
    let known = u32::try_from(index).ok().filter(|&index| (index as usize) < len);
    known.map(ActionIndex).ok_or_else(|| {
        let said = format!("Out-of-range: action {index} is not in range [0, {len})");
        Status::invalid_argument(said)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_their_shape() {
        let Some(event::Value::Int64Tensor(ints)) =
            of_value(Value::IntVector([3, -4].into())).value
        else {
            panic!("another kind of event");
        };
        assert_eq!((ints.shape, ints.value), (vec![2], vec![3, -4]));
        let Some(event::Value::ByteTensor(bytes)) = of_value(Value::Bytes(vec![1, 2, 3])).value
        else {
            panic!("another kind of event");
        };
        assert_eq!((bytes.shape, bytes.value), (vec![3], vec![1, 2, 3]));
    }

    #[test]
    fn only_places_of_the_space_are_actions() {
        assert_eq!(action(&int(123), 124).unwrap(), ActionIndex(123));
        let places = [124, -1, 1 << 40].map(|place| (int(place), "Out-of-range: "));
        let others = [text("-gvn".into()), UNSET].map(|other| (other, "Invalid action, int64_v"));
        for (wrong, said) in places.into_iter().chain(others) {
            let refused = action(&wrong, 124).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{wrong:?}");
            assert!(refused.message().starts_with(said), "{}", refused.message());
        }
        assert!(action(&int(124), 124).unwrap_err().message().ends_with("not in range [0, 124)"));
    }
}
