//! The types in which matrices keep their numbers.

/// The type in which a matrix keeps its numbers: the narrowest that holds all of them. Narrow
/// numbers take less memory, and a gather from them is no slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberKind {
    U8,
    U16,
    I32,
    I64,
    F64,
}

/// Evaluates an expression with the type of Rust that a [`NumberKind`] names.
macro_rules! of_kind {
    ($kind:expr, $number:ident => $result:expr) => {{
        macro_rules! with {
            ($type:ty) => {{
                type $number = $type;
                $result
            }};
        }
        match $kind {
            NumberKind::U8 => with!(u8),
            NumberKind::U16 => with!(u16),
            NumberKind::I32 => with!(i32),
            NumberKind::I64 => with!(i64),
            NumberKind::F64 => with!(f64),
        }
    }};
}

impl NumberKind {
    pub(crate) const ALL: [Self; 5] = [Self::U8, Self::U16, Self::I32, Self::I64, Self::F64];

    /// The narrowest kind of integers that holds these two and all between them.
    pub(crate) fn of_range(least: i64, greatest: i64) -> Self {
        let holds = |kind: Self| {
            kind.integers().is_some_and(|(low, high)| low <= least && greatest <= high)
        };
        Self::ALL.into_iter().find(|&kind| holds(kind)).unwrap_or(Self::I64)
    }

    /// The least and the greatest integer of the kind; none for fractions.
    pub(crate) fn integers(self) -> Option<(i64, i64)> {
        Some(match self {
            Self::U8 => (0, u8::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::I32 => (i32::MIN.into(), i32::MAX.into()),
            Self::I64 => (i64::MIN, i64::MAX),
            Self::F64 => return None,
        })
    }

    /// Bytes of a number.
    pub(crate) fn bytes(self) -> usize {
        of_kind!(self, Number => size_of::<Number>())
    }
}

pub(crate) use of_kind;
