//! The functions `action_name` and `commandline`.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array, new_null_array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::arguments::{action_lists, integers};
use super::memory;
use super::registry::ContextIdentity;
use steplake_lake::Identity;
use steplake_model::suggestions::meant;
use steplake_model::{ActionIndex, ActionSpec, opt_command};

/// A function from actions of lakes with an identity to texts.
pub(super) type ActionTextFn = fn(&Identity, &ArrayRef, &MemoryReservation) -> Result<ArrayRef>;

/// The action at `index` of the lake's action space.
fn action(identity: &Identity, index: i64) -> Result<&ActionSpec> {
    let space = &identity.action_space;
    let known = u32::try_from(index).ok().and_then(|index| space.get(ActionIndex(index)));
    known.ok_or_else(|| {
        plan_datafusion_err!(
            "there is no action {index} in `{}`, which has {} actions",
            space.name,
            space.actions.len()
        )
    })
}

/// Reads a column as action indices.
fn indices(column: &ArrayRef) -> Result<Int64Array> {
    integers(column, "an action's index")
}

/// `action_name(action)`.
pub(super) fn names(
    identity: &Identity,
    column: &ArrayRef,
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let mut names = memory::TextBuilder::new("action_name", memory);
    for index in &indices(column)? {
        let spec = index.map(|index| action(identity, index)).transpose()?;
        names.append(spec.map(|spec| &spec.name))?;
    }
    Ok(names.finish())
}

/// The texts of actions of several contexts, each by the name of its context.
pub(super) fn of_contexts(
    contexts: &[ContextIdentity],
    texts: ActionTextFn,
    names: &ArrayRef,
    actions: &ArrayRef,
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let names = cast(names, &DataType::Utf8)?;
    let names = names.as_string::<i32>();
    let known = |name: &str| contexts.iter().position(|context| context.name == name);
    // The place of each row's text: its context, and its place among the rows of that context.
    let mut places = Vec::with_capacity(names.len());
    let mut rows: Vec<Vec<u64>> = vec![Vec::new(); contexts.len()];
    for (row, name) in names.iter().enumerate() {
        let Some(name) = name else {
            places.push((contexts.len(), 0));
            continue;
        };
        let of = known(name).ok_or_else(|| {
            let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
            plan_datafusion_err!("there is no context `{name}`: {}", meant(name, &names))
        })?;
        places.push((of, rows[of].len()));
        rows[of].push(row as u64);
    }
    let mut found = Vec::with_capacity(contexts.len() + 1);
    for (context, rows) in contexts.iter().zip(rows) {
        let own = take(actions, &UInt64Array::from(rows), None)?;
        found.push(texts(&context.identity, &own, memory)?);
    }
    // The text of a row without a context.
    found.push(new_null_array(&DataType::Utf8, 1));
    let found: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&found, &places)?)
}

/// The environment whose pipelines `opt` runs. Others have other compilers, or, as lakes of
/// imported logs, another LLVM.
const OF_OPT: &str = "llvm-v0";

/// `commandline(actions)`: for `llvm-v0` `opt -passes='…' input.bc -o output.bc` with the
/// pipelines of the actions, without empty ones, and a pipe of such calls if some set options; for
/// any other environment, the names.
pub(super) fn command_lines(
    identity: &Identity,
    column: &ArrayRef,
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let mut lines = memory::TextBuilder::new("commandline", memory);
    let mut append = |actions: Option<&Int64Array>| {
        lines.append(actions.map(|actions| command_line(identity, actions)).transpose()?)
    };
    if let DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) =
        column.data_type()
    {
        for list in action_lists(column, memory)?.iter() {
            append(list.as_ref().map(AsArray::as_primitive))?;
        }
    } else {
        for index in &indices(column)? {
            append(index.map(|index| Int64Array::from(vec![index])).as_ref())?;
        }
    }
    Ok(lines.finish())
}

/// The command line of one list, without its nulls.
fn command_line(identity: &Identity, actions: &Int64Array) -> Result<String> {
    let specs = actions.iter().flatten().map(|index| action(identity, index));
    let specs: Vec<&ActionSpec> = specs.collect::<Result<_>>()?;
    if identity.environment != OF_OPT {
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        return Ok(names.join(" "));
    }
    let pipelines = specs.iter().map(|spec| spec.pipeline.as_str());
    Ok(opt_command(pipelines.filter(|text| !text.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_with_another_option_are_those_of_another_call() {
        let command = |pipelines: &[&str]| opt_command(pipelines.iter().copied());
        assert_eq!(command(&[]), "opt input.bc -o output.bc");
        assert_eq!(command(&["a", "b<c>"]), "opt -passes='a,b<c>' input.bc -o output.bc");
        assert_eq!(command(&["with<x=1>(a)"]), "opt -passes='a' -x=1 input.bc -o output.bc");
        let mixed = ["a", "with<x=1>(f(b<c>(d)))", "with<x=1>(e)", "with<x=2>(e)", "a", "a"];
        assert_eq!(
            command(&mixed),
            "opt -passes='a' input.bc | opt -passes='f(b<c>(d)),e' -x=1 | opt -passes='e' -x=2 \
             | opt -passes='a,a' -o output.bc"
        );
    }
}
