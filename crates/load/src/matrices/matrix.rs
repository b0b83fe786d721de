//! Matrices of numbers that lie in files and are mapped into memory.

use std::fmt;
use std::fs::File;
use std::io;

use memmap2::Mmap;
use num_traits::AsPrimitive;

use super::mapped::{map, prefetch};
use super::number_kind::{NumberKind, of_kind};
use super::numbers::{NumberType, Numbers};

pub(crate) const MAGIC: &[u8; 16] = b"steplake matrix\x01";
pub(crate) const HEADER_BYTES: usize = 64;

/// A matrix of numbers, row by row, in a file that is mapped into memory.
pub(crate) struct Matrix {
    file: Mmap,
    kind: NumberKind,
    rows: usize,
    width: usize,
    /// The rows without values, ascending. Their numbers are zeros.
    missing: Vec<u32>,
}

impl Matrix {
    /// Maps a file that a [`MatrixBuilder`](super::matrix_builder::MatrixBuilder) wrote; `None` if
    /// it is damaged.
    pub(crate) fn open(file: &File) -> io::Result<Option<Self>> {
        let file = map(file)?;
        let Some(header) = file.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let number = |at: usize| {
            let bytes = header[at..].first_chunk().expect("the header has room for it");
            usize::try_from(u64::from_le_bytes(*bytes)).ok()
        };
        let kind = NumberKind::ALL.get(usize::from(header[16])).copied();
        let (Some(kind), Some(rows), Some(width), Some(missing)) =
            (kind, number(24), number(32), number(40))
        else {
            return Ok(None);
        };
        let numbers = rows.checked_mul(width).and_then(|count| count.checked_mul(kind.bytes()));
        let data = numbers.and_then(|bytes| bytes.checked_add(HEADER_BYTES));
        let whole = data.and_then(|bytes| bytes.checked_add(missing.checked_mul(4)?));
        let (Some(data), true) = (data, whole == Some(file.len()) && header.starts_with(MAGIC))
        else {
            return Ok(None);
        };
        let missing = file[data..].as_chunks().0.iter().map(|row| u32::from_le_bytes(*row));
        let missing = missing.collect();
        Ok(Some(Self { file, kind, rows, width, missing }))
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The rows without values, ascending.
    pub(crate) fn missing(&self) -> &[u32] {
        &self.missing
    }

    /// Bytes of memory when all of it has been read.
    pub(crate) fn bytes(&self) -> usize {
        self.file.len()
    }

    /// Whether every number of the matrix is one of this type. A fraction may be rounded.
    pub(crate) fn fits(&self, number_type: NumberType) -> bool {
        let Some((least, greatest)) = number_type.integers() else { return true };
        self.kind.integers().is_some_and(|(low, high)| least <= low && high <= greatest)
    }

    /// A digest of all numbers.
    pub(crate) fn digest(&self) -> String {
        blake3::hash(&self.file).to_hex().to_string()
    }

    fn data(&self) -> &[u8] {
        &self.file[HEADER_BYTES..HEADER_BYTES + self.rows * self.width * self.kind.bytes()]
    }

    /// The bytes of a row of a matrix of bytes.
    ///
    /// # Panics
    ///
    /// If its numbers are no bytes.
    pub(crate) fn row_bytes(&self, row: usize) -> &[u8] {
        assert_eq!(self.kind, NumberKind::U8, "it was made from bytes");
        &self.data()[row * self.width..(row + 1) * self.width]
    }

    /// Reads rows in the given order.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub(crate) fn gather(
        &self,
        rows: impl ExactSizeIterator<Item = usize>,
        number_type: NumberType,
    ) -> Numbers {
        match number_type {
            NumberType::Bool | NumberType::U8 => Numbers::U8(self.gather_as(rows)),
            NumberType::I32 => Numbers::I32(self.gather_as(rows)),
            NumberType::I64 => Numbers::I64(self.gather_as(rows)),
            NumberType::F32 => Numbers::F32(self.gather_as(rows)),
            NumberType::F64 => Numbers::F64(self.gather_as(rows)),
        }
    }

    /// Reads rows in the given order, as numbers of a type that holds them.
    pub(crate) fn gather_as<T>(&self, rows: impl ExactSizeIterator<Item = usize>) -> Vec<T>
    where
        T: Copy + 'static,
        u8: AsPrimitive<T>,
        u16: AsPrimitive<T>,
        i32: AsPrimitive<T>,
        i64: AsPrimitive<T>,
        f64: AsPrimitive<T>,
    {
        of_kind!(self.kind, Number => {
            let row = |bytes| Number::from_le_bytes(bytes).as_();
            gather::<{ size_of::<Number>() }, T>(self.data(), self.width, rows, row)
        })
    }
}

/// Rows that are prefetched before the first of them is copied, at most. Memory then answers for
/// many rows at a time; row by row, a gather of rows in a random order takes three times as long.
const ROWS_AHEAD: usize = 64;

/// Bytes that are prefetched, at most: the cache nearest to a core must hold them.
const BYTES_AHEAD: usize = 16 << 10;

/// Copies rows of `width` numbers of `BYTES` bytes each.
fn gather<const BYTES: usize, T>(
    data: &[u8],
    width: usize,
    mut rows: impl ExactSizeIterator<Item = usize>,
    number: impl Fn([u8; BYTES]) -> T,
) -> Vec<T> {
    let numbers = data.as_chunks::<BYTES>().0;
    let mut gathered = Vec::with_capacity(rows.len() * width);
    if width == 1 {
        gathered.extend(rows.map(|row| number(numbers[row])));
        return gathered;
    }
    let rows_ahead = (BYTES_AHEAD / (width * BYTES).max(1)).clamp(1, ROWS_AHEAD);
    let mut ahead = [0; ROWS_AHEAD];
    while rows.len() > 0 {
        let mut count = 0;
        for (place, row) in ahead[..rows_ahead].iter_mut().zip(&mut rows) {
            prefetch(numbers[row * width..(row + 1) * width].as_flattened());
            (*place, count) = (row, count + 1);
        }
        for row in &ahead[..count] {
            let values = &numbers[row * width..(row + 1) * width];
            gathered.extend(values.iter().map(|bytes| number(*bytes)));
        }
    }
    gathered
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rows, width, .. } = self;
        write!(f, "Matrix({rows} x {width} {kind:?})")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use proptest::prelude::*;

    use super::*;
    use crate::matrices::matrix_builder::MatrixBuilder;

    /// The matrix as a file, mapped again.
    fn mapped(builder: &MatrixBuilder) -> Matrix {
        let mut file = tempfile::tempfile().unwrap();
        builder.write(&mut file).unwrap();
        file.rewind().unwrap();
        Matrix::open(&file).unwrap().unwrap()
    }

    proptest! {
        #[test]
        fn integers_of_any_size_come_back(
            rows in proptest::collection::vec(
                proptest::option::of((0..7_u32, any::<i64>(), any::<i64>())), 0..50,
            ),
        ) {
            // Small numbers first: the matrix grows wider as it is made.
            let numbers: Vec<Option<[i64; 2]>> = rows
                .iter()
                .enumerate()
                .map(|(row, some)| {
                    let (bytes, a, b) = (*some)?;
                    let shift = 64 - (8 * (bytes + 1)).min(64).min(8 + u32::try_from(row).unwrap());
                    Some([a >> shift, b >> shift])
                })
                .collect();
            let mut builder = MatrixBuilder::integers(numbers.len() / 2, 2);
            for (row, values) in numbers.iter().enumerate() {
                if row >= builder.rows() {
                    builder.add_row();
                }
                if let Some(values) = values {
                    builder.set_integers(row, values.iter().copied());
                }
            }
            let matrix = mapped(&builder);
            prop_assert_eq!(matrix.rows(), numbers.len().max(numbers.len() / 2));
            for (row, values) in numbers.iter().enumerate() {
                let read: Vec<i64> = matrix.gather_as(std::iter::once(row));
                prop_assert_eq!(read, values.unwrap_or_default());
                let is_missing = matrix.missing().contains(&u32::try_from(row).unwrap());
                prop_assert_eq!(is_missing, values.is_none());
            }
        }
    }

    #[test]
    fn rows_come_in_the_order_that_is_asked_for_however_many_are_read_ahead() {
        // Rows of bytes, rows that fill several cache lines, and rows that are read one by one.
        for width in [2, 90, BYTES_AHEAD + 1] {
            let rows = 70;
            let value = |row: usize, at: usize| i64::try_from((row * 7 + at) % 251).unwrap();
            let mut builder = MatrixBuilder::integers(rows, width);
            for row in 0..rows {
                builder.set_integers(row, (0..width).map(|at| value(row, at)));
            }
            let matrix = mapped(&builder);
            for count in [0, 1, ROWS_AHEAD - 1, ROWS_AHEAD, ROWS_AHEAD + 1, 2 * ROWS_AHEAD + 2] {
                let order = (0..count).map(|place| place * 31 % rows);
                let read: Vec<i64> =
                    matrix.gather_as(order.clone().collect::<Vec<_>>().into_iter());
                let wanted = order.flat_map(|row| (0..width).map(move |at| value(row, at)));
                assert!(wanted.eq(read), "{count} rows of {width}");
            }
        }
    }

    #[test]
    fn numbers_are_kept_in_the_narrowest_type() {
        let kind = |values: [i64; 2]| {
            let mut builder = MatrixBuilder::integers(1, 2);
            builder.set_integers(0, values.into_iter());
            mapped(&builder).kind
        };
        assert_eq!(kind([0, 255]), NumberKind::U8);
        assert_eq!(kind([0, 256]), NumberKind::U16);
        assert_eq!(kind([0, 65_536]), NumberKind::I32);
        assert_eq!(kind([-1, 1]), NumberKind::I32);
        assert_eq!(kind([0, 1 << 31]), NumberKind::I64);
        assert_eq!(kind([-1, 1 << 31]), NumberKind::I64);
        let mut builder = MatrixBuilder::integers(1, 1);
        builder.set_integers(0, std::iter::once(70_000));
        let matrix = mapped(&builder);
        assert!(matrix.fits(NumberType::I32) && matrix.fits(NumberType::F32));
        assert!(!matrix.fits(NumberType::U8));
    }

    #[test]
    fn a_damaged_file_is_no_matrix() {
        let mut builder = MatrixBuilder::fractions(3, 2);
        builder.set_fractions(1, [0.5, -1.5].into_iter());
        let mut bytes = Vec::new();
        builder.write(&mut bytes).unwrap();
        let open = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            Matrix::open(&file).unwrap()
        };
        assert_eq!(open(&bytes).unwrap().gather_as::<f32>([1].into_iter()), [0.5, -1.5]);
        for length in [1, HEADER_BYTES - 1, HEADER_BYTES, bytes.len() - 1] {
            assert!(open(&bytes[..length]).is_none(), "{length} bytes");
        }
        let mut other = bytes.clone();
        other[24..32].fill(0xff);
        assert!(open(&other).is_none());
        bytes[0] = 0;
        assert!(open(&bytes).is_none());
    }
}
