//! `Inst2vec`: the statements of a program, and their embeddings, as `CompilerGym` has them.
//!
//! The vocabulary is that of [NCC](https://github.com/spcl/ncc), which was trained on text with
//! typed pointers. So statements are taken from text of that kind (`shim/typed_text.cpp`), whose
//! pointees follow from how the program uses its pointers. `data/inst2vec` has the vocabulary, with
//! its licence:
//!
//! | file | holds |
//! |---|---|
//! | `dictionary.zst` | the statements in the order of their numbers, each ended by a zero byte |
//! | `embeddings.zst` | the embedding of each, as [`WIDTH`] little-endian floats of 32 bits |

mod statements;
mod structs;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) use statements::statements;

/// The length of an embedding.
pub(super) const WIDTH: usize = 200;

/// The statement that stands for all those that are not in the vocabulary.
const UNKNOWN: &str = "!UNK";

static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
    let texts = unpacked(include_bytes!("../../../../data/inst2vec/dictionary.zst"));
    let texts = String::from_utf8(texts).expect("the committed dictionary is text");
    let numbers: HashMap<_, _> =
        texts.split_terminator('\0').map(str::to_owned).zip(0_i32..).collect();
    let unknown = numbers[UNKNOWN];
    Dictionary { numbers, unknown }
});

static EMBEDDINGS: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let bytes = unpacked(include_bytes!("../../../../data/inst2vec/embeddings.zst"));
    let (numbers, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "the committed embeddings are whole numbers");
    numbers.iter().map(|&number| f32::from_bits(u32::from_le_bytes(number))).collect()
});

struct Dictionary {
    numbers: HashMap<String, i32>,
    unknown: i32,
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    zstd::decode_all(packed).expect("the committed vocabulary can be unpacked")
}

/// Returns the numbers of statements in the vocabulary.
pub(super) fn numbers(statements: &[String]) -> Vec<i32> {
    let Dictionary { numbers, unknown } = &*DICTIONARY;
    statements.iter().map(|text| numbers.get(text).copied().unwrap_or(*unknown)).collect()
}

/// Returns the embeddings of the statements of these numbers, one after another.
pub(super) fn embeddings(numbers: &[i32]) -> Vec<f64> {
    let row = |&number: &i32| {
        let begin = usize::try_from(number).expect("numbers are places") * WIDTH;
        &EMBEDDINGS[begin..begin + WIDTH]
    };
    numbers.iter().flat_map(row).copied().map(f64::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_of_the_vocabulary_has_a_number_and_an_embedding() {
        let Dictionary { numbers, unknown } = &*DICTIONARY;
        assert_eq!((numbers.len(), *unknown), (8565, 8564));
        assert_eq!(EMBEDDINGS.len(), 8565 * WIDTH);
        assert!(EMBEDDINGS.iter().all(|number| number.is_finite()));
    }

    #[test]
    fn what_is_not_in_the_vocabulary_is_unknown() {
        let texts = ["<%ID> = alloca i32, align 4", "nonsense"].map(str::to_owned);
        let numbers = numbers(&texts);
        assert_eq!(numbers[1], 8564);
        assert!(numbers[0] < 8564);
        let rows = embeddings(&numbers);
        assert_eq!(rows.len(), 2 * WIDTH);
        assert_ne!(rows[..WIDTH], rows[WIDTH..]);
        assert!(embeddings(&[]).is_empty());
    }
}
