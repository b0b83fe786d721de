//! Events in the text format of protocol buffers.

use std::fmt::Write as _;

use crate::proto::{Event, event};

/// Returns an event as text, in one line.
pub(super) fn event(event: &Event) -> String {
    let mut text = String::new();
    write_event(&mut text, event);
    text
}

fn write_event(text: &mut String, event: &Event) {
    use event::Value;

    match &event.value {
        None => {}
        Some(Value::BooleanValue(flag)) => field(text, "boolean_value", flag),
        Some(Value::Int64Value(number)) => field(text, "int64_value", number),
        Some(Value::FloatValue(number)) => field(text, "float_value", number),
        Some(Value::DoubleValue(number)) => field(text, "double_value", number),
        Some(Value::StringValue(value)) => quoted(text, "string_value", value.as_bytes()),
        Some(Value::ByteTensor(tensor)) => block(text, "byte_tensor", |text| {
            each(text, "shape", &tensor.shape);
            quoted(text, "value", &tensor.value);
        }),
        Some(Value::BooleanTensor(tensor)) => {
            numbers(text, "boolean_tensor", &tensor.shape, &tensor.value);
        }
        Some(Value::Int64Tensor(tensor)) => {
            numbers(text, "int64_tensor", &tensor.shape, &tensor.value);
        }
        Some(Value::FloatTensor(tensor)) => {
            numbers(text, "float_tensor", &tensor.shape, &tensor.value);
        }
        Some(Value::DoubleTensor(tensor)) => {
            numbers(text, "double_tensor", &tensor.shape, &tensor.value);
        }
        Some(Value::StringTensor(tensor)) => block(text, "string_tensor", |text| {
            each(text, "shape", &tensor.shape);
            tensor.value.iter().for_each(|one| quoted(text, "value", one.as_bytes()));
        }),
        Some(Value::AnyValue(any)) => block(text, "any_value", |text| {
            quoted(text, "type_url", any.type_url.as_bytes());
            quoted(text, "value", &any.value);
        }),
        Some(Value::EventList(list)) => block(text, "event_list", |text| {
            list.event
                .iter()
                .for_each(|event| block(text, "event", |text| write_event(text, event)));
        }),
        Some(Value::EventDict(dict)) => block(text, "event_dict", |text| {
            for (key, event) in &dict.event {
                block(text, "event", |text| {
                    quoted(text, "key", key.as_bytes());
                    block(text, "value", |text| write_event(text, event));
                });
            }
        }),
    }
}

fn field(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // A string takes everything.
    let _ = write!(text, "{name}: {value} ");
}

fn each<T: std::fmt::Display>(text: &mut String, name: &str, values: &[T]) {
    for value in values {
        field(text, name, value);
    }
}

fn numbers<T: std::fmt::Display>(text: &mut String, name: &str, shape: &[u64], values: &[T]) {
    block(text, name, |text| {
        each(text, "shape", shape);
        each(text, "value", values);
    });
}

fn block(text: &mut String, name: &str, fill: impl FnOnce(&mut String)) {
    let _ = write!(text, "{name} {{ ");
    fill(text);
    text.push_str("} ");
}

/// Writes bytes between quotes; those that are not printable as three octal digits.
fn quoted(text: &mut String, name: &str, bytes: &[u8]) {
    let _ = write!(text, "{name}: \"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(byte.into());
            }
            b' '..=b'~' => text.push(byte.into()),
            _ => {
                let _ = write!(text, "\\{byte:03o}");
            }
        }
    }
    text.push_str("\" ");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler_gym::events::{UNSET, flag, int, ints, opaque, text};

    #[test]
    fn events_are_written_as_protocol_buffers_read_them() {
        assert_eq!(event(&UNSET), "");
        assert_eq!(event(&int(-3)), "int64_value: -3 ");
        assert_eq!(event(&flag(true)), "boolean_value: true ");
        let said = event(&text("a \"b\"\\\n\u{e9}".into()));
        assert_eq!(said, r#"string_value: "a \"b\"\\\012\303\251" "#);
        assert_eq!(event(&ints(vec![1, 2])), "int64_tensor { shape: 2 value: 1 value: 2 } ");
        let any = event(&opaque("json://", "{}"));
        assert!(any.starts_with("any_value { type_url: \"type.googleapis.com/"), "{any}");
    }
}
