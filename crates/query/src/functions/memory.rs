//! Counts the memory of values that functions make, before they are made.
//!
//! DataFusion does not count values in batches between operators, and gives scalar functions no
//! memory pool. Our functions find the pool of their statement in the session's settings, and count
//! the values of one call against it while they make them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, StringBuilder};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

use crate::errors::error::QueryError;

/// Bytes of text in one column of a batch; Arrow's string columns end at 2 GiB.
pub(super) const TEXT_BYTES_MAX: usize = 1 << 30;

/// The memory pool of a statement, as an extension of its settings.
#[derive(Debug, Clone)]
pub(crate) struct FunctionMemory {
    pool: Arc<dyn MemoryPool>,
    planning: Option<Planning>,
}

/// The planning of a statement, which computes constants.
#[derive(Debug, Clone)]
pub(crate) struct Planning {
    /// The memory of all of them.
    pub(crate) constants: Arc<MemoryReservation>,
    is_over: Arc<AtomicBool>,
}

impl Planning {
    /// From now on, rows are computed.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl FunctionMemory {
    /// The memory of functions that compute rows.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self { pool: Arc::clone(pool), planning: None }
    }

    /// The memory in the settings of a statement; without a limit if they have none.
    pub(crate) fn of(settings: &ConfigOptions) -> Self {
        let known = settings.extensions.get::<Self>().cloned();
        known.unwrap_or_else(|| {
            let unbounded: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
            Self::new(&unbounded)
        })
    }

    /// The same memory, for functions that compute constants until the planning ends, and then
    /// rows.
    pub(crate) fn of_planning(&self) -> (Self, Planning) {
        let constants = MemoryConsumer::new("constants and expressions").register(&self.pool);
        let planning = Planning { constants: Arc::new(constants), is_over: Arc::default() };
        (Self { planning: Some(planning.clone()), ..self.clone() }, planning)
    }

    /// The memory of constants, if they are computed now, and no rows.
    pub(crate) fn constants(&self) -> Option<&MemoryReservation> {
        let planning = self.planning.as_ref()?;
        (!planning.is_over.load(Ordering::Relaxed)).then_some(&*planning.constants)
    }

    /// Counts the bytes of the result of one call, until the reservation is dropped.
    pub(crate) fn reserve(&self, function: &str, bytes: u128) -> Result<MemoryReservation> {
        let memory = MemoryConsumer::new(format!("{function}()")).register(&self.pool);
        memory.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(memory)
    }
}

impl ConfigExtension for FunctionMemory {
    const PREFIX: &'static str = "steplake_memory";
}

impl ExtensionOptions for FunctionMemory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        config_err!("there is no setting `{}.{key}`", Self::PREFIX)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// The memory of one call of `function`, which is released when this is dropped.
pub(super) fn memory_of(function: &str, settings: &ConfigOptions) -> MemoryReservation {
    let FunctionMemory { pool, .. } = FunctionMemory::of(settings);
    MemoryConsumer::new(format!("{function}()")).register(&pool)
}

/// Counts the memory of `items` items in a builder, which may allocate twice as much.
pub(super) fn reserve_built<T>(memory: &MemoryReservation, items: usize) -> Result<()> {
    memory.try_grow(items.saturating_mul(2 * size_of::<T>()))
}

/// A builder of a column of texts.
pub(super) struct TextBuilder<'a> {
    function: &'static str,
    memory: &'a MemoryReservation,
    builder: StringBuilder,
}

impl<'a> TextBuilder<'a> {
    pub(super) fn new(function: &'static str, memory: &'a MemoryReservation) -> Self {
        Self { function, memory, builder: StringBuilder::new() }
    }

    /// # Errors
    ///
    /// If the statement may not have the memory, or the column would be too large.
    pub(super) fn append(&mut self, text: Option<impl AsRef<str>>) -> Result<()> {
        let bytes = text.as_ref().map_or(0, |text| text.as_ref().len());
        demand_fit(self.function, self.builder.values_slice().len() + bytes)?;
        reserve_built::<u8>(self.memory, bytes + size_of::<i32>())?;
        self.builder.append_option(text);
        Ok(())
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

/// Refuses a column of too many bytes.
pub(super) fn demand_fit(function: &str, bytes: usize) -> Result<()> {
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let error = QueryError::TooLarge(format!(
        "{function}() would make more than {TEXT_BYTES_MAX} bytes at once: ask for fewer rows, e.g. with LIMIT"
    ));
    Err(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    #[test]
    fn texts_are_counted_before_they_are_there() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let mut settings = ConfigOptions::default();
        settings.extensions.insert(FunctionMemory::new(&pool));
        let memory = memory_of("f", &settings);
        let mut texts = TextBuilder::new("f", &memory);
        texts.append(Some("x".repeat(300))).unwrap();
        texts.append(None::<&str>).unwrap();
        assert!(pool.reserved() >= 300);
        let refused = texts.append(Some("x".repeat(300))).unwrap_err().strip_backtrace();
        assert!(refused.contains("f()"), "{refused}");
        assert_eq!(texts.finish().len(), 2);
        drop(memory);
        assert_eq!(pool.reserved(), 0);
        assert!(demand_fit("f", TEXT_BYTES_MAX).is_ok());
        let refused = demand_fit("f", TEXT_BYTES_MAX + 1).unwrap_err().strip_backtrace();
        assert!(refused.contains("f() would make more than"), "{refused}");
    }
}
