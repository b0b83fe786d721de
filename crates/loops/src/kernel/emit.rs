//! A state as LLVM's text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::dag::Unary;
use super::super::schedule::{BodyItem, LoopKind};
use super::super::state::LoopsState;
use super::functions::definition;
use super::locations::{ALIGNMENT, CpuLocations};
use super::nest::{Nest, TEXT_BYTES_MAX};

/// A schedule whose code would be too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the code of a nest would have more than {TEXT_BYTES_MAX} bytes of text: unroll less")]
pub struct TooLarge;

/// Returns the module of a state, as text.
///
/// # Errors
///
/// If it is too large.
pub fn module(state: &LoopsState) -> Result<String, TooLarge> {
    let (dag, outline) = (&*state.dag, state.outline());
    let locations = CpuLocations::new(dag, &outline);
    let (mut text, mut is_parallel) = (String::new(), Vec::new());
    let (mut functions, mut next) = (BTreeSet::new(), (0, 0));
    for (number, item) in state.schedule.0.iter().enumerate() {
        let mut nest = Nest::new(dag, &outline, &locations);
        nest.prepare();
        next = nest.items(std::slice::from_ref(item), next);
        if nest.lines.bytes() > TEXT_BYTES_MAX {
            return Err(TooLarge);
        }
        nest.lines.put("ret void");
        functions.append(&mut nest.functions);
        is_parallel.push(matches!(item, BodyItem::Loop(outer) if outer.run == LoopKind::Parallel));
        text.push_str(&function(number, locations.arrays.len(), &nest.lines.finish()));
    }
    for (is_exp, lanes) in functions {
        let unary = if is_exp { Unary::Exp } else { Unary::Log };
        text.push_str(&definition(unary, lanes));
    }
    text.push_str(&tables(&locations, &is_parallel));
    text.push_str("!0 = !{i32 1}\n");
    Ok(text)
}

/// Returns the functions of a nest: one that is given the array of arrays, and one that is given
/// each array.
fn function(number: usize, arrays: usize, body: &str) -> String {
    let (mut parameters, mut loads, mut arguments) = (String::new(), String::new(), String::new());
    let put = |text: &mut String, part: std::fmt::Arguments<'_>| {
        text.write_fmt(part).expect("a string takes it");
    };
    for array in 0..arrays {
        put(&mut parameters, format_args!("ptr noalias align {ALIGNMENT} %a{array}, "));
        put(
            &mut loads,
            format_args!(
                "  %p{array} = getelementptr ptr, ptr %arrays, i64 {array}\n  %a{array} = load \
                 ptr, ptr %p{array}\n"
            ),
        );
        put(&mut arguments, format_args!("ptr %a{array}, "));
    }
    format!(
        "define internal void @body{number}({parameters}ptr noalias align {ALIGNMENT} %private, \
         i64 %thread, i64 %threads) noinline nounwind {{\n{body}}}\n\
         define void @nest{number}(ptr %arrays, ptr %private, i64 %thread, i64 %threads) nounwind \
         {{\n{loads}  call void @body{number}({arguments}ptr %private, i64 %thread, i64 %threads)\n  \
         ret void\n}}\n"
    )
}

/// Returns the tables that the harness reads.
fn tables(locations: &CpuLocations, is_parallel: &[bool]) -> String {
    let list = |items: Vec<String>| items.join(", ");
    let nests = (0..is_parallel.len()).map(|number| format!("ptr @nest{number}")).collect();
    let parallel = is_parallel.iter().map(|&is| format!("i8 {}", u8::from(is))).collect();
    let elements = locations.arrays.iter().map(|(_, elements)| format!("i64 {elements}")).collect();
    let contents = locations.arrays.iter().map(|(kind, _)| format!("i8 {}", kind.code())).collect();
    let (nest_count, array_count) = (is_parallel.len(), locations.arrays.len());
    format!(
        "@loops_nest_count = constant i64 {nest_count}\n\
         @loops_nests = constant [{nest_count} x ptr] [{}]\n\
         @loops_is_parallel = constant [{nest_count} x i8] [{}]\n\
         @loops_array_count = constant i64 {array_count}\n\
         @loops_elements = constant [{array_count} x i64] [{}]\n\
         @loops_contents = constant [{array_count} x i8] [{}]\n\
         @loops_private_bytes = constant i64 {}\n",
        list(nests),
        list(parallel),
        list(elements),
        list(contents),
        locations.private_bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum over the outermost loop, whose element each copy of the unrolled loops within begins:
    /// as the ranges have tails, there are 160,000 copies.
    #[test]
    fn the_text_of_a_nest_stops_growing_soon_after_its_limit() {
        let dims = ["a", "b", "c", "d", "e", "f"];
        let axes = dims.join(", ");
        let mut text = "// loops-v0 state 1\nk = 2\n".to_owned();
        for dim in dims {
            writeln!(text, "{dim} = 23").expect("a string takes it");
        }
        write!(text, "%0 = input[k]\n%1 = input[{axes}]\n%2 = multiply %0 %1\n")
            .expect("a string takes it");
        write!(text, "%3 = sum[k] %2\noutput %3[{axes}]\nfor k by 1\n").expect("a string takes it");
        let loops = dims.iter().enumerate().flat_map(|(place, dim)| {
            let mark = if place < 4 { " unroll" } else { "" };
            [(dim, 9, ""), (dim, 4, ""), (dim, 1, mark)]
        });
        let mut depth = 1;
        for (dim, step, mark) in loops {
            let indent = "  ".repeat(depth);
            writeln!(text, "{indent}for {dim} by {step}{mark}").expect("a string takes it");
            depth += 1;
        }
        let indent = "  ".repeat(depth);
        write!(text, "{indent}%2\n{indent}%3\n").expect("a string takes it");
        let state = LoopsState::parse(text.as_bytes()).unwrap();
        let outline = state.outline();
        let locations = CpuLocations::new(&state.dag, &outline);
        let mut nest = Nest::new(&state.dag, &outline, &locations);
        nest.prepare();
        nest.items(&state.schedule.0, (0, 0));
        let bytes = nest.lines.bytes();
        assert!((TEXT_BYTES_MAX..TEXT_BYTES_MAX + (1 << 14)).contains(&bytes), "{bytes}");
        assert_eq!(module(&state), Err(TooLarge));
    }
}
