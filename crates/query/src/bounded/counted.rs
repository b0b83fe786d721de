//! Counts the memory of a value for as long as somebody holds it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, ListArray, OffsetSizeTrait};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use bytes::Bytes;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;

/// Smaller values are not worth the counting.
pub(super) const COUNTED_BYTES_MIN: usize = 64 << 10;

/// A buffer with its memory.
struct CountedBuffer {
    buffer: Buffer,
    #[expect(dead_code, reason = "it is there to be dropped with the buffer")]
    memory: MemoryReservation,
}

impl AsRef<[u8]> for CountedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_slice()
    }
}

/// The same value, whose memory is released when the last copy of it is gone. The memory of values
/// that are small, or neither texts nor lists, is released now.
pub(super) fn until_gone(value: ColumnarValue, memory: MemoryReservation) -> ColumnarValue {
    let ColumnarValue::Array(array) = value else { return value };
    let bytes = array.get_array_memory_size();
    if bytes < COUNTED_BYTES_MIN {
        return ColumnarValue::Array(array);
    }
    // It was an estimate.
    memory.resize(bytes);
    ColumnarValue::Array(match array.data_type() {
        DataType::Utf8 => text::<i32>(&array, memory),
        DataType::LargeUtf8 => text::<i64>(&array, memory),
        DataType::List(_) => list(&array, memory),
        _ => array,
    })
}

fn counted(buffer: Buffer, memory: MemoryReservation) -> Buffer {
    Buffer::from(Bytes::from_owner(CountedBuffer { buffer, memory }))
}

fn text<O: OffsetSizeTrait>(array: &ArrayRef, memory: MemoryReservation) -> ArrayRef {
    let (offsets, values, nulls) = array.as_string::<O>().clone().into_parts();
    Arc::new(GenericStringArray::<O>::new(offsets, counted(values, memory), nulls))
}

fn list(array: &ArrayRef, memory: MemoryReservation) -> ArrayRef {
    let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
    let offsets = counted(offsets.into_inner().into_inner(), memory);
    let offsets = OffsetBuffer::new(ScalarBuffer::<i32>::from(offsets));
    Arc::new(ListArray::new(field, offsets, values, nulls))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::Int32Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    #[test]
    fn what_is_held_is_counted_until_its_last_part_is_dropped() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10 << 20));
        let reserved = || MemoryConsumer::new("f()").register(&pool);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000); 3]));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            (0..30_000).map(|row| Some(vec![Some(row)])),
        ));
        for array in [texts, lists] {
            let held = until_gone(ColumnarValue::Array(Arc::clone(&array)), reserved());
            let ColumnarValue::Array(held) = held else { panic!("no column") };
            assert_eq!(&held, &array);
            assert!(pool.reserved() >= 100_000, "{}", pool.reserved());
            let part = held.slice(1, 1);
            drop(held);
            assert!(pool.reserved() >= 100_000, "a part is still there");
            drop(part);
            assert_eq!(pool.reserved(), 0);
        }
        let small: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let memory = reserved();
        memory.try_grow(100).unwrap();
        let _small = until_gone(ColumnarValue::Array(small), memory);
        assert_eq!(pool.reserved(), 0);
    }
}
