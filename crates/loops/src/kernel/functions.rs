//! Exponentials and logarithms of vectors, as functions in LLVM's text.
//!
//! Libraries have them for one number at a time. Both are within
//! [`FUNCTION_ROUNDINGS`](super::super::reference::FUNCTION_ROUNDINGS) of the right result:
//!
//! - `exp x = 2^n exp r` with `n` the integer nearest to `x / ln 2`, so that `|r| <= ln 2 / 2`,
//!   and Taylor's polynomial of degree 7, whose remainder is below `r^8 / 8! < 6e-9` of the result.
//! - `log x = n ln 2 + log m` with `m` from `sqrt 1/2` to `sqrt 2`, and `log m = 2 artanh s` with
//!   `s = (m - 1) / (m + 1)`, so that `|s| < 0.172`, and the series up to `s^9`, whose remainder is
//!   below `s^10 / 11 < 3e-9` of the result.

use std::fmt::Write as _;

use super::super::dag::Unary;

/// The natural logarithm of 2 is the first, of 9 bits, less the second.
const LN_2_SHORT: f32 = 355.0 / 512.0;
const LN_2_REST: f32 = 2.121_944_4e-4;

/// Returns the type of so many lanes of numbers.
pub(super) fn lanes_of(number: &str, lanes: u64) -> String {
    if lanes == 1 { number.to_owned() } else { format!("<{lanes} x {number}>") }
}

/// Returns a constant of so many lanes.
pub(super) fn splat(number: &str, constant: &str, lanes: u64) -> String {
    if lanes == 1 { constant.to_owned() } else { format!("splat ({number} {constant})") }
}

/// Returns a number as LLVM's text has it, exactly.
pub(super) fn literal(number: f32) -> String {
    format!("0x{:016X}", f64::from(number).to_bits())
}

/// Returns the name of the function of so many lanes, if the operation is one.
pub(super) fn name(unary: Unary, lanes: u64) -> Option<String> {
    matches!(unary, Unary::Exp | Unary::Log).then(|| format!("@{}.{lanes}", unary.name()))
}

/// Returns the suffix of intrinsics of so many lanes.
pub(super) fn suffix(lanes: u64) -> String {
    if lanes == 1 { "f32".to_owned() } else { format!("v{lanes}f32") }
}

/// Returns the definition of a function.
pub(super) fn definition(unary: Unary, lanes: u64) -> String {
    let mut function = FunctionBody { lanes, lines: String::new(), next: 0 };
    let result = match unary {
        Unary::Exp => function.exp(),
        _ => function.log(),
    };
    let (float, name) = (lanes_of("float", lanes), name(unary, lanes).unwrap_or_default());
    format!(
        "define internal {float} {name}({float} %x) alwaysinline nounwind {{\n{}  ret {float} \
         {result}\n}}\n",
        function.lines
    )
}

struct FunctionBody {
    lanes: u64,
    lines: String,
    next: usize,
}

impl FunctionBody {
    fn value(&mut self, instruction: &str) -> String {
        self.next += 1;
        writeln!(self.lines, "  %t{} = {instruction}", self.next).expect("a string takes it");
        format!("%t{}", self.next)
    }

    fn float(&self) -> String {
        lanes_of("float", self.lanes)
    }

    fn int(&self) -> String {
        lanes_of("i32", self.lanes)
    }

    fn number(&self, number: f32) -> String {
        splat("float", &literal(number), self.lanes)
    }

    fn integer(&self, integer: i32) -> String {
        splat("i32", &integer.to_string(), self.lanes)
    }

    fn two(&mut self, operation: &str, one: &str, other: &str) -> String {
        let float = self.float();
        self.value(&format!("{operation} {float} {one}, {other}"))
    }

    fn ints(&mut self, operation: &str, one: &str, other: &str) -> String {
        let int = self.int();
        self.value(&format!("{operation} {int} {one}, {other}"))
    }

    /// `one * other + third`, rounded once.
    fn fused(&mut self, one: &str, other: &str, third: &str) -> String {
        let (float, suffix) = (self.float(), suffix(self.lanes));
        self.value(&format!(
            "call {float} @llvm.fma.{suffix}({float} {one}, {float} {other}, {float} {third})"
        ))
    }

    /// A polynomial, from the coefficient of the highest power.
    fn polynomial(&mut self, at: &str, coefficients: &[f32]) -> String {
        let (first, rest) = coefficients.split_first().expect("there is a coefficient");
        let mut sum = self.number(*first);
        for coefficient in rest {
            let coefficient = self.number(*coefficient);
            sum = self.fused(&sum, at, &coefficient);
        }
        sum
    }

    /// `yes` where the comparison with a number holds, else `no`.
    fn select(&mut self, comparison: &str, than: f32, yes: &str, no: &str) -> String {
        let (float, than) = (self.float(), self.number(than));
        let is = self.value(&format!("fcmp {comparison} {float} %x, {than}"));
        let bit = lanes_of("i1", self.lanes);
        self.value(&format!("select {bit} {is}, {float} {yes}, {float} {no}"))
    }

    fn cast(&mut self, cast: &str, from: &str, to: &str, what: &str) -> String {
        let (from, to) = (lanes_of(from, self.lanes), lanes_of(to, self.lanes));
        self.value(&format!("{cast} {from} {what} to {to}"))
    }

    fn exp(&mut self) -> String {
        // Below the one the result is 0, and above the other infinite.
        let least = self.number(-110.0);
        let low = self.select("olt", -110.0, &least, "%x");
        let most = self.number(95.0);
        let clamped = self.select("ogt", 95.0, &most, &low);
        let (float, suffix) = (self.float(), suffix(self.lanes));
        let (inverse, short, rest) = (
            self.number(std::f32::consts::LOG2_E),
            self.number(-LN_2_SHORT),
            self.number(LN_2_REST),
        );
        let scaled = self.two("fmul", &clamped, &inverse);
        let whole = self.value(&format!("call {float} @llvm.roundeven.{suffix}({float} {scaled})"));
        let part = self.fused(&whole, &short, &clamped);
        let part = self.fused(&whole, &rest, &part);
        let coefficients =
            [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
        let power = self.polynomial(&part, &coefficients);
        // 2^n in two factors, which are both normal numbers.
        let n = self.cast("fptosi", "float", "i32", &whole);
        let one = self.integer(1);
        let half = self.ints("ashr", &n, &one);
        let other = self.ints("sub", &n, &half);
        let mut result = power;
        for exponent in [half, other] {
            let (bias, places) = (self.integer(127), self.integer(23));
            let biased = self.ints("add", &exponent, &bias);
            let bits = self.ints("shl", &biased, &places);
            let factor = self.cast("bitcast", "i32", "float", &bits);
            result = self.two("fmul", &result, &factor);
        }
        self.select("uno", 0.0, "%x", &result)
    }

    fn log(&mut self) -> String {
        // Numbers below the normal ones are scaled up by 2^23.
        let scale = self.number(8_388_608.0);
        let scaled = self.two("fmul", "%x", &scale);
        let normal = self.select("olt", f32::MIN_POSITIVE, &scaled, "%x");
        let (none, shift) = (self.number(0.0), self.number(-23.0));
        let shifted = self.select("olt", f32::MIN_POSITIVE, &shift, &none);
        let bits = self.cast("bitcast", "float", "i32", &normal);
        // The bits of the square root of 1/2: what is above it belongs to the next power of 2.
        let (root, places) = (self.integer(0x3f35_04f3), self.integer(23));
        let above = self.ints("sub", &bits, &root);
        let n = self.ints("ashr", &above, &places);
        let exponent = self.ints("shl", &n, &places);
        let mantissa = self.ints("sub", &bits, &exponent);
        let m = self.cast("bitcast", "i32", "float", &mantissa);
        let n = self.cast("sitofp", "i32", "float", &n);
        let n = self.two("fadd", &n, &shifted);
        let (one, two) = (self.number(1.0), self.number(2.0));
        let f = self.two("fsub", &m, &one);
        let sum = self.two("fadd", &f, &two);
        let s = self.two("fdiv", &f, &sum);
        let square = self.two("fmul", &s, &s);
        let series = self.polynomial(&square, &[1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0]);
        let double = self.two("fadd", &s, &s);
        let cubic = self.two("fmul", &square, &series);
        let log = self.fused(&double, &cubic, &double);
        let (short, rest) = (self.number(LN_2_SHORT), self.number(-LN_2_REST));
        let log = self.fused(&n, &rest, &log);
        let log = self.fused(&n, &short, &log);
        let infinite = self.number(f32::INFINITY);
        let log = self.select("oeq", f32::INFINITY, &infinite, &log);
        let least = self.number(f32::NEG_INFINITY);
        let log = self.select("oeq", 0.0, &least, &log);
        let nothing = self.number(f32::NAN);
        self.select("ult", 0.0, &nothing, &log)
    }
}
