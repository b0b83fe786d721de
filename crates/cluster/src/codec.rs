//! How plans are serialised, beyond the nodes of DataFusion and Ballista: the tables of a lake, and
//! steplake's functions.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference, exec_datafusion_err, exec_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::{
    FunctionRegistry as _, SessionState, SessionStateBuilder, TaskContext,
};
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use steplake::lake::{FORMAT_VERSION, Identity};
use steplake::model::ActionSpace;
use steplake::query::{FieldFunctions, identity_of};

use crate::tables::ShippedTable;

/// The largest message between two processes: a plan with its tables, or a batch.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 256 << 20;

/// A placeholder for functions that are the same for all lakes.
fn any_lake() -> Arc<Identity> {
    Arc::new(Identity {
        format_version: FORMAT_VERSION,
        environment: String::new(),
        compiler: String::new(),
        target: String::new(),
        action_space: ActionSpace { name: String::new(), actions: Vec::new() },
        observations: Vec::new(),
        rewards: Vec::new(),
        baselines: Vec::new(),
        state_scheme: 1,
    })
}

/// Returns the functions that need no lake: an executor registers them when it starts.
pub(crate) fn registry() -> Result<BallistaFunctionRegistry> {
    let mut state: SessionState = SessionStateBuilder::new().with_default_features().build();
    let FieldFunctions { scalars, aggregates } = FieldFunctions::of(&any_lake());
    for function in scalars.into_iter().filter(|function| identity_of(function).is_none()) {
        state.register_udf(function)?;
    }
    for function in aggregates {
        state.register_udaf(function)?;
    }
    Ok(BallistaFunctionRegistry::from(&state))
}

/// Serialises a function that needs a lake: its bytes are the lake's identity.
fn encode_function(function: &ScalarUDF, bytes: &mut Vec<u8>) {
    if let Some(identity) = identity_of(function) {
        bytes.extend_from_slice(identity.to_json().as_bytes());
    }
}

fn decode_function(name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
    let identity = if bytes.is_empty() {
        any_lake()
    } else {
        let text = std::str::from_utf8(bytes).map_err(|e| exec_datafusion_err!("{e}"))?;
        Arc::new(Identity::from_json(text).map_err(|e| exec_datafusion_err!("{name}(): {e}"))?)
    };
    let scalars = FieldFunctions::of(&identity).scalars;
    let found = scalars.into_iter().find(|function| function.name() == name);
    match found {
        Some(function) if bytes.is_empty() && identity_of(&function).is_some() => {
            exec_err!("{name}() was sent without the identity of its lake")
        }
        Some(function) => Ok(function),
        None => {
            exec_err!("this process has no function {name}(): is it an older steplake-cluster?")
        }
    }
}

/// Marks an aggregate function of steplake. Without a mark, whoever reads the plan takes its own
/// function of that name, and DataFusion has a `sum` too.
fn encode_aggregate(function: &AggregateUDF, bytes: &mut Vec<u8>) {
    let own = FieldFunctions::of(&any_lake()).aggregates;
    if own.iter().any(|own| own.as_ref() == function) {
        bytes.push(1);
    }
}

fn decode_aggregate(name: &str) -> Result<Arc<AggregateUDF>> {
    let aggregates = FieldFunctions::of(&any_lake()).aggregates;
    let found = aggregates.into_iter().find(|function| function.name() == name);
    found.ok_or_else(|| exec_datafusion_err!("this process has no function {name}()"))
}

/// The methods of a codec for functions.
macro_rules! functions {
    () => {
        fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
            decode_function(name, bytes)
        }

        fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
            encode_function(function, bytes);
            Ok(())
        }

        fn try_decode_udaf(&self, name: &str, _: &[u8]) -> Result<Arc<AggregateUDF>> {
            decode_aggregate(name)
        }

        fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
            encode_aggregate(function, bytes);
            Ok(())
        }
    };
}

/// Serialises what a client sends to the scheduler.
#[derive(Debug, Default)]
pub(crate) struct LogicalCodec(BallistaLogicalExtensionCodec);

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[LogicalPlan],
        context: &TaskContext,
    ) -> Result<Extension> {
        self.0.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.try_encode(node, bytes)
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(ShippedTable::decode(bytes)?))
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(table) = table.downcast_ref::<ShippedTable>() else {
            return exec_err!("`{name}` cannot be sent to a cluster");
        };
        table.encode(bytes)
    }

    fn try_decode_file_format(
        &self,
        bytes: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(
        &self,
        bytes: &mut Vec<u8>,
        format: Arc<dyn FileFormatFactory>,
    ) -> Result<()> {
        self.0.try_encode_file_format(bytes, format)
    }

    functions!();
}

/// Serialises what the scheduler sends to executors.
#[derive(Debug, Default)]
pub(crate) struct PhysicalCodec(BallistaPhysicalExtensionCodec);

impl PhysicalExtensionCodec for PhysicalCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.try_decode(bytes, inputs, context, converter)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        self.0.try_encode(node, bytes, converter)
    }

    functions!();
}
