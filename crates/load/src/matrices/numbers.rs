//! Numbers as they are handed out.

steplake_model::named! {
    /// A type of numbers that training libraries know.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum NumberType {
        /// Truth values, a byte each: 0 or 1.
        Bool = "bool",
        /// Bytes.
        U8 = "uint8",
        /// Integers of 32 bits.
        I32 = "int32",
        /// Integers of 64 bits.
        I64 = "int64",
        /// Fractions of 32 bits.
        F32 = "float32",
        /// Fractions of 64 bits.
        F64 = "float64",
    }

    /// The name that `NumPy` and `PyTorch` have for it.
    fn name;
    fn from_name;
}

impl NumberType {
    /// The least and the greatest integer of the type; none for fractions.
    pub(crate) fn integers(self) -> Option<(i64, i64)> {
        match self {
            Self::Bool => Some((0, 1)),
            Self::U8 => Some((0, u8::MAX.into())),
            Self::I32 => Some((i32::MIN.into(), i32::MAX.into())),
            Self::I64 => Some((i64::MIN, i64::MAX)),
            Self::F32 | Self::F64 => None,
        }
    }
}

/// Numbers of one type, row by row.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers {
    /// Bytes and truth values.
    U8(Vec<u8>),
    /// Integers of 32 bits.
    I32(Vec<i32>),
    /// Integers of 64 bits.
    I64(Vec<i64>),
    /// Fractions of 32 bits.
    F32(Vec<f32>),
    /// Fractions of 64 bits.
    F64(Vec<f64>),
}

impl Numbers {
    /// Appends rows of `width` numbers of the same type: the source of each, and its number in it.
    ///
    /// # Panics
    ///
    /// If there is no such row, or the types differ.
    pub(crate) fn append_rows(&mut self, from: &[&Self], width: usize, rows: &[(usize, usize)]) {
        /// The sources as slices of the one type that they have.
        macro_rules! sources {
            ($variant:ident) => {{
                let slices = from.iter().map(|from| match from {
                    Self::$variant(from) => from.as_slice(),
                    _ => panic!("the numbers of a column are of one type"),
                });
                slices.collect::<Vec<_>>()
            }};
        }
        match self {
            Self::U8(to) => append_rows(to, &sources!(U8), width, rows),
            Self::I32(to) => append_rows(to, &sources!(I32), width, rows),
            Self::I64(to) => append_rows(to, &sources!(I64), width, rows),
            Self::F32(to) => append_rows(to, &sources!(F32), width, rows),
            Self::F64(to) => append_rows(to, &sources!(F64), width, rows),
        }
    }
}

fn append_rows<T: Copy>(to: &mut Vec<T>, from: &[&[T]], width: usize, rows: &[(usize, usize)]) {
    to.reserve(rows.len() * width);
    if width == 1 {
        to.extend(rows.iter().map(|&(source, row)| from[source][row]));
    } else {
        for &(source, row) in rows {
            to.extend_from_slice(&from[source][row * width..(row + 1) * width]);
        }
    }
}
