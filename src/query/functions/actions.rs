use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{action_lists, apply, integers};
use super::memory::{Texts, memory_of};
use crate::lake::Identity;
use crate::model::{ActionIndex, ActionSpec};

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
#[derive(Debug)]
pub(super) struct ActionName {
    signature: Signature,
    identity: Arc<Identity>,
}

impl ActionName {
    pub(super) fn new(identity: Arc<Identity>) -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable), identity }
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    fn names(&self, column: &ArrayRef, memory: &MemoryReservation) -> Result<ArrayRef> {
        let mut names = Texts::new("action_name", memory);
        for index in &indices(column)? {
            let spec = index.map(|index| action(&self.identity, index)).transpose()?;
            names.append(spec.map(|spec| &spec.name))?;
        }
        Ok(names.finish())
    }
}

impl ScalarUDFImpl for ActionName {
    fn name(&self) -> &'static str {
        "action_name"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let memory = memory_of(self.name(), &args.config_options);
        apply(&args.args[0], |column| self.names(column, &memory))
    }
}

/// `commandline(actions)`: for an LLVM environment `opt -passes='…' input.bc -o output.bc` with the
/// pipelines of the actions, without empty ones; for any other environment, the names.
#[derive(Debug)]
pub(super) struct CommandLine {
    signature: Signature,
    identity: Arc<Identity>,
}

impl CommandLine {
    pub(super) fn new(identity: Arc<Identity>) -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable), identity }
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    fn lines(&self, column: &ArrayRef, memory: &MemoryReservation) -> Result<ArrayRef> {
        let mut lines = Texts::new("commandline", memory);
        match column.data_type() {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                for list in action_lists(column, memory)?.iter() {
                    let line = list.map(|list| self.line(list.as_primitive())).transpose()?;
                    lines.append(line)?;
                }
            }
            _ => {
                for index in &indices(column)? {
                    let line = index.map(|index| self.line(&Int64Array::from(vec![index])));
                    lines.append(line.transpose()?)?;
                }
            }
        }
        Ok(lines.finish())
    }

    /// The command line of one list, without its nulls.
    fn line(&self, actions: &Int64Array) -> Result<String> {
        let specs = actions.iter().flatten().map(|index| action(&self.identity, index));
        let specs: Vec<&ActionSpec> = specs.collect::<Result<_>>()?;
        if !self.identity.environment.starts_with("llvm") {
            let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
            return Ok(names.join(" "));
        }
        let asked = specs.iter().map(|spec| spec.pipeline.as_str()).filter(|text| !text.is_empty());
        let pipelines: Vec<&str> = asked.collect();
        if pipelines.is_empty() {
            return Ok("opt input.bc -o output.bc".to_owned());
        }
        Ok(format!("opt -passes='{}' input.bc -o output.bc", pipelines.join(",")))
    }
}

impl ScalarUDFImpl for CommandLine {
    fn name(&self) -> &'static str {
        "commandline"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let memory = memory_of(self.name(), &args.config_options);
        apply(&args.args[0], |column| self.lines(column, &memory))
    }
}

/// Two functions are equal if they are for lakes of the same identity.
macro_rules! same_by_identity {
    ($($function:ty),*) => {$(
        impl PartialEq for $function {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.identity, &other.identity) || self.identity == other.identity
            }
        }

        impl Eq for $function {}

        impl Hash for $function {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.name().hash(state);
            }
        }
    )*};
}

same_by_identity!(ActionName, CommandLine);
