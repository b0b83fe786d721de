//! The functions with which LLVM folds calls of `pow`, `sin` and others, in place of the host's.
//!
//! LLVM folds `pow(2.5, x)` by calling `pow`. A C library may round such functions as it likes, and
//! glibc chooses an implementation by the CPU, so a state would depend on the machine. The linker,
//! static or dynamic, finds the symbols below first. They always compute the same: they are the
//! crate `libm` in plain arithmetic, which every CPU rounds alike.
//!
//! Only functions without one exact result are here. `fmod`, `floor`, `ldexp`, `sqrt` and the like
//! have one, and LLVM folds `exp2` and `exp10` by `pow`. `logl` stays the host's: two sanitizers
//! call it for the number of bits of a random number, which is a whole number.
//!
//! `qsort` is replaced as well (`shim/sort.cpp`): the host may leave equal elements in any order.
//!
//! The rest of the program gets these functions too, and so answers that do not depend on the CPU.

#![expect(unsafe_code, reason = "defines and calls functions of C's by their names")]

use std::ffi::c_int;

use nix::errno::Errno;

/// Defines C functions by the functions of the crate `libm` with the same names.
macro_rules! define {
    ($($name:ident($($argument:ident),+);)+) => {
        $(
            // SAFETY: it has the name, the type and the meaning of the C library's function.
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: f64),+) -> f64 {
                report_errors(libm::$name($($argument),+), &[$($argument),+])
            }
        )+
        /// Every function of one or two arguments, with its name.
        #[cfg(test)]
        const FUNCTIONS: &[(&str, MathFunction)] =
            &[$((stringify!($name), define!(@$($argument),+)($name))),+];
    };
    (@$x:ident) => { MathFunction::One };
    (@$x:ident, $y:ident) => { MathFunction::Two };
}

define! {
    acos(x);
    asin(x);
    atan(x);
    atan2(y, x);
    cos(x);
    cosh(x);
    erf(x);
    exp(x);
    log(x);
    log10(x);
    log1p(x);
    log2(x);
    pow(x, y);
    sin(x);
    sinh(x);
    tan(x);
    tanh(x);
}

// SAFETY: it has the name, the type and the meaning of the C library's function.
#[unsafe(no_mangle)]
extern "C" fn log2f(x: f32) -> f32 {
    libm::log2f(x)
}

/// Ends a call as C requires, and identically on every machine.
///
/// LLVM folds a call if it reports no error, neither in `errno` nor as a floating-point exception.
/// Which exceptions `libm` raises depends on its compiler, so this clears all of them and sets
/// `errno` from the values: EDOM if the result is no number, ERANGE for overflow, poles and
/// underflow.
fn report_errors(result: f64, arguments: &[f64]) -> f64 {
    // SAFETY: this is the C library's function, which takes any number.
    unsafe { feclearexcept(FE_ALL_EXCEPT) };
    if let Some(nan) = arguments.iter().find(|argument| argument.is_nan())
        && result.is_nan()
    {
        // Which NaN an operation returns is unspecified. This one is the argument, made quiet.
        return f64::from_bits(nan.to_bits() | QUIET_BIT);
    }
    let is_finite = arguments.iter().all(|argument| argument.is_finite());
    let is_exact_zero = arguments.iter().any(|argument| [0.0, 1.0].contains(argument));
    if result.is_nan() {
        Errno::EDOM.set();
        return f64::NAN;
    }
    let overflows = result.is_infinite();
    let underflows = result.is_subnormal() || (result == 0.0 && !is_exact_zero);
    if is_finite && (overflows || underflows) {
        Errno::ERANGE.set();
    }
    result
}

/// The bit that makes a NaN quiet.
const QUIET_BIT: u64 = 1 << 51;

/// All exceptions, on x86.
const FE_ALL_EXCEPT: c_int = 0x3d;

unsafe extern "C" {
    fn feclearexcept(exceptions: c_int) -> c_int;
}

#[cfg(test)]
enum MathFunction {
    One(extern "C" fn(f64) -> f64),
    Two(extern "C" fn(f64, f64) -> f64),
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    use super::*;
    use crate::assemble;
    use crate::engine::Engine;
    use crate::session::first_state;

    /// Returns numbers of many sizes, and those at which functions have poles, limits and errors.
    fn arguments() -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut numbers = vec![0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 710.0, -746.0, 1e-310, 1e300];
        for _ in 0..30 {
            let fraction = f64::from(random.next_u32()) / f64::from(u32::MAX);
            numbers.extend([fraction, -fraction, 20.0 * fraction, 1e-9 * fraction, 1e9 * fraction]);
        }
        numbers
    }

    /// Calls a function; returns its result and whether it reported no error.
    fn call(function: &MathFunction, x: f64, y: f64) -> (f64, bool) {
        Errno::clear();
        let result = match function {
            MathFunction::One(function) => function(x),
            MathFunction::Two(function) => function(x, y),
        };
        (result, Errno::last_raw() == 0)
    }

    /// Returns the numbers that a module's functions return; none for a result that is no constant.
    /// LLVM writes a number in decimal or as its bits.
    fn constants(text: &str) -> Vec<Option<f64>> {
        let returned = text.lines().filter_map(|line| line.trim().strip_prefix("ret double "));
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
            None => text.parse().ok(),
        };
        returned.map(number).collect()
    }

    #[test]
    fn llvm_folds_calls_with_these_functions() {
        let mut engine = Engine::new().unwrap();
        for (name, function) in FUNCTIONS {
            let mut text = match function {
                MathFunction::One(_) => format!("declare double @{name}(double)\n"),
                MathFunction::Two(_) => format!("declare double @{name}(double, double)\n"),
            };
            let numbers = arguments();
            let pairs: Vec<_> = numbers.iter().zip(numbers.iter().rev()).collect();
            for (index, (x, y)) in pairs.iter().enumerate() {
                let [x, y] = [x, y].map(|number| format!("double 0x{:016X}", number.to_bits()));
                let list = match function {
                    MathFunction::One(_) => x,
                    MathFunction::Two(_) => format!("{x}, {y}"),
                };
                writeln!(
                    text,
                    "define double @f{index}() {{ %r = call double @{name}({list}) ret double %r }}"
                )
                .unwrap();
            }
            let mut program = first_state(&engine, &assemble(text.as_bytes()).unwrap()).unwrap();
            engine.run(&mut program, "sccp").unwrap();
            let constants = constants(&program.print());
            assert_eq!(constants.len(), pairs.len());
            let mut folded = 0;
            for (constant, (x, y)) in constants.iter().zip(&pairs) {
                let (result, is_fine) = call(function, **x, **y);
                // LLVM does not try to fold some calls, and folds none that reports an error.
                if let Some(constant) = constant {
                    assert!(is_fine, "{name}({x:e}, {y:e})");
                    assert_eq!(constant.to_bits(), result.to_bits(), "{name}({x:e}, {y:e})");
                    folded += 1;
                }
            }
            assert!(folded > 50, "{name} was folded {folded} times");
        }
    }

    unsafe extern "C" {
        fn qsort(
            base: *mut [u32; 2],
            count: usize,
            size: usize,
            compare: extern "C" fn(&[u32; 2], &[u32; 2]) -> c_int,
        );
    }

    extern "C" fn by_first(one: &[u32; 2], other: &[u32; 2]) -> c_int {
        one[0].cmp(&other[0]) as c_int
    }

    #[test]
    fn sorting_keeps_what_is_equal_in_order() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for count in [0, 1, 2, 3, 100, 10_001] {
            let mut pairs: Vec<_> =
                (0..count).map(|place| [random.next_u32() % 50, place]).collect();
            let mut wanted = pairs.clone();
            wanted.sort_by_key(|pair| pair[0]);
            // SAFETY: the count and the size are those of the pairs, and the comparison takes two
            // of them.
            unsafe { qsort(pairs.as_mut_ptr(), pairs.len(), size_of::<[u32; 2]>(), by_first) };
            assert_eq!(pairs, wanted);
        }
    }

    #[test]
    fn errors_are_reported_as_c_wants_it() {
        let cases = [
            ("exp", [710.0, 0.0], f64::INFINITY, false),
            ("exp", [-746.0, 0.0], 0.0, false),
            ("exp", [f64::NEG_INFINITY, 0.0], 0.0, true),
            ("log", [0.0, 0.0], f64::NEG_INFINITY, false),
            ("log", [1.0, 0.0], 0.0, true),
            ("acos", [1.0, 0.0], 0.0, true),
            ("pow", [1e-200, 2.0], 0.0, false),
            ("pow", [0.0, -1.0], f64::INFINITY, false),
            ("sin", [0.0, 0.0], 0.0, true),
            ("sin", [1e-310, 0.0], 1e-310, false),
            ("tanh", [f64::INFINITY, 0.0], 1.0, true),
        ];
        for (name, [x, y], result, is_fine) in cases {
            let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name).unwrap();
            let called = call(function, x, y);
            assert_eq!((called.0.to_bits(), called.1), (result.to_bits(), is_fine), "{name}({x})");
        }
        let (_, asin) = FUNCTIONS.iter().find(|(name, _)| *name == "asin").unwrap();
        assert!(matches!(call(asin, 2.0, 0.0), (result, false) if result.is_nan()));
        let nan = f64::from_bits(0xfff0_0000_0000_0007);
        assert_eq!(call(asin, nan, 0.0).0.to_bits(), 0xfff8_0000_0000_0007);
    }
}
