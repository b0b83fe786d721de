//! CUDA C++ as indented lines, and the small parts of expressions.

use super::super::dag::{Binary, Reduction, Unary};

/// The text of a kernel as it grows.
#[derive(Debug, Default)]
pub(super) struct KernelText {
    pub(super) text: String,
    depth: usize,
    names: usize,
}

impl KernelText {
    /// Adds a line.
    pub(super) fn put(&mut self, line: &str) {
        // A line of the preprocessor has no indentation to lose.
        self.text.extend(std::iter::repeat_n("    ", self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a line and the brace that opens what it is the head of.
    pub(super) fn open(&mut self, head: &str) {
        let blank = if head.is_empty() { "" } else { " " };
        self.put(&format!("{head}{blank}{{"));
        self.depth += 1;
    }

    /// Closes so many braces.
    pub(super) fn close(&mut self, braces: usize) {
        for _ in 0..braces {
            self.depth -= 1;
            self.put("}");
        }
    }

    /// Returns a name that no other variable has.
    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("x{}", self.names)
    }
}

/// A finite number, or minus infinity.
pub(super) fn literal(number: f32) -> String {
    match number {
        f32::NEG_INFINITY => "__int_as_float(0xff800000)".to_owned(),
        _ if number.is_sign_negative() => format!("({number:?}f)"),
        _ => format!("{number:?}f"),
    }
}

/// What a reduction starts from.
pub(super) fn identity(reduction: Reduction) -> String {
    literal(match reduction {
        Reduction::Sum => 0.0,
        Reduction::Max => f32::NEG_INFINITY,
    })
}

/// A value with one more term of a reduction.
pub(super) fn combined(reduction: Reduction, one: &str, other: &str) -> String {
    of_two(if reduction == Reduction::Sum { Binary::Add } else { Binary::Max }, one, other)
}

/// An operation on one number.
pub(super) fn of_one(unary: Unary, one: &str) -> String {
    match unary {
        Unary::Exp => format!("expf({one})"),
        Unary::Log => format!("logf({one})"),
        Unary::Sqrt => format!("sqrtf({one})"),
        Unary::Abs => format!("fabsf({one})"),
        Unary::Negate => format!("-{one}"),
        Unary::Reciprocal => format!("1.0f / {one}"),
    }
}

/// An operation on two numbers.
pub(super) fn of_two(binary: Binary, one: &str, other: &str) -> String {
    match binary {
        Binary::Add => format!("{one} + {other}"),
        Binary::Subtract => format!("{one} - {other}"),
        Binary::Multiply => format!("{one} * {other}"),
        Binary::Divide => format!("{one} / {other}"),
        Binary::Min => format!("fminf({one}, {other})"),
        Binary::Max => format!("fmaxf({one}, {other})"),
    }
}
