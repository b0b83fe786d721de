//! Rows of a file that its table no longer has.

use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use roaring::RoaringBitmap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The first bytes of a vector: the number of the format in Delta.
const MAGIC: u32 = 1_681_511_377;
/// The bytes before the bitmap: the magic number, the number of bitmaps, and the upper half of the
/// positions in the only one.
const HEAD: usize = 16;

/// The positions of deleted rows in a file: a *deletion vector*.
///
/// A file of a derived table is never changed. When a row comes to be in a newer layer, the older
/// layer's file gets a new vector instead. The positions are bytes in the format of Delta
/// (delta-io/delta, PROTOCOL.md, "Deletion Vector Format"), as a text in the base 85 of `ZeroMQ`'s
/// RFC 32 where a text is needed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeletionVector(Option<Arc<RoaringBitmap>>);

impl Eq for DeletionVector {}

impl DeletionVector {
    /// No row is deleted.
    pub(crate) const NONE: Self = Self(None);

    /// Whether no row is deleted.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The number of deleted rows.
    pub fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, |rows| rows.len())
    }

    /// Whether all positions are those of a file with this number of rows.
    pub(crate) fn fits(&self, rows: u64) -> bool {
        self.0.as_ref().and_then(|deleted| deleted.max()).is_none_or(|max| u64::from(max) < rows)
    }

    /// The vector with more positions.
    #[must_use]
    pub(crate) fn with(&self, more: &RoaringBitmap) -> Self {
        if more.is_empty() {
            return self.clone();
        }
        let own = self.0.as_deref().cloned().unwrap_or_default();
        Self(Some(Arc::new(own | more)))
    }

    /// The rows in these ranges of the file that are not deleted. The ranges ascend.
    pub fn live_selection(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> RowSelection {
        let mut selectors = Vec::new();
        let length =
            |rows: Range<u64>| usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
        let bound = |at: u64| u32::try_from(at).unwrap_or(u32::MAX);
        for range in ranges {
            let mut at = range.start;
            let positions = bound(range.start)..bound(range.end);
            for deleted in self.0.iter().flat_map(|rows| rows.range(positions.clone())) {
                let deleted = u64::from(deleted);
                selectors.push(RowSelector::select(length(at..deleted)));
                selectors.push(RowSelector::skip(1));
                at = deleted + 1;
            }
            selectors.push(RowSelector::select(length(at..range.end)));
        }
        // Neighbours of one kind become one.
        selectors.into_iter().collect()
    }

    /// The vector in the format of Delta; no bytes if it is empty.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Some(rows) = &self.0 else { return Vec::new() };
        let mut bytes = Vec::with_capacity(HEAD + rows.serialized_size());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        rows.serialize_into(&mut bytes).expect("memory can be written to");
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote, perhaps with zeros behind it. None if it is
    /// something else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::NONE);
        }
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let (high, rest) = rest.split_first_chunk::<4>()?;
        let is_known = u32::from_le_bytes(*magic) == MAGIC
            && u64::from_le_bytes(*count) == 1
            && u32::from_le_bytes(*high) == 0;
        let rows = RoaringBitmap::deserialize_from(rest).ok()?;
        (is_known && !rows.is_empty()).then(|| Self(Some(Arc::new(rows))))
    }

    /// The vector as a text, for JSON, and the number of its bytes.
    pub(crate) fn to_text(&self) -> (String, usize) {
        let bytes = self.to_bytes();
        (base85(&bytes), bytes.len())
    }
}

impl Serialize for DeletionVector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_text().0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DeletionVector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let vector = from_base85(&text).and_then(|bytes| Self::from_bytes(&bytes));
        vector.ok_or_else(|| de::Error::custom("no deletion vector"))
    }
}

/// The digits of the base 85, by their values.
const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Four bytes become five digits. Zeros are appended to a length that four does not divide.
fn base85(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for chunk in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let number = u32::from_le_bytes(word).swap_bytes();
        let digit = |power: u32| char::from(DIGITS[(number / 85_u32.pow(power) % 85) as usize]);
        text.extend([4, 3, 2, 1, 0].map(digit));
    }
    text
}

fn from_base85(text: &str) -> Option<Vec<u8>> {
    let (chunks, rest) = text.as_bytes().as_chunks::<5>();
    let value = |digit: &u8| DIGITS.iter().position(|known| known == digit);
    let word = |chunk: &[u8; 5]| {
        let number =
            chunk.iter().try_fold(0_u64, |number, digit| Some(number * 85 + value(digit)? as u64));
        u32::try_from(number?).ok().map(|number| number.swap_bytes().to_le_bytes())
    };
    let words = chunks.iter().map(word).collect::<Option<Vec<_>>>()?;
    rest.is_empty().then(|| words.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(rows: &[u32]) -> DeletionVector {
        DeletionVector::default().with(&rows.iter().copied().collect())
    }

    #[test]
    fn bytes_become_the_digits_of_the_rfc() {
        let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(base85(&bytes), "HelloWorld");
        assert_eq!(from_base85("HelloWorld"), Some(bytes.to_vec()));
        assert_eq!(from_base85("Hello World"), None);
        assert_eq!(from_base85("#####"), None, "more than 32 bits");
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        let text = |json: &str| serde_json::from_str::<DeletionVector>(json);
        assert!(text("\"\"").unwrap().is_empty());
        for wrong in ["\"0\"", "\"HelloWorld\"", "\"00000\"", "7"] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_vector_comes_back_and_says_which_rows_are_left(
            rows in proptest::collection::btree_set(0..500_u32, 0..200),
            more in proptest::collection::btree_set(0..500_u32, 0..20),
        ) {
            let all = rows.union(&more).copied().collect::<Vec<_>>();
            let vector = vector(&rows.into_iter().collect::<Vec<_>>())
                .with(&more.into_iter().collect());
            let text = serde_json::to_string(&vector).unwrap();
            prop_assert_eq!(&serde_json::from_str::<DeletionVector>(&text).unwrap(), &vector);
            prop_assert_eq!(vector.len(), all.len() as u64);
            let ranges = [10..100, 100..150, 300..500];
            let (mut selected, mut place) = (Vec::<u64>::new(), 0);
            let of_place = ranges.iter().cloned().flatten().collect::<Vec<u64>>();
            for selector in vector.live_selection(ranges).iter() {
                let rows = &of_place[place..place + selector.row_count];
                selected.extend(rows.iter().filter(|_| !selector.skip));
                place += selector.row_count;
            }
            let is_live = |row: &&u64| !all.iter().any(|deleted| u64::from(*deleted) == **row);
            let wanted = of_place.iter().filter(is_live).copied().collect::<Vec<_>>();
            prop_assert_eq!(selected, wanted);
        }
    }
}
