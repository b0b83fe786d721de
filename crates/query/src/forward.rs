//! Methods that implementations of DataFusion's traits have in common.

/// Forwards methods of a trait to the field of a wrapper, by their signatures without `&self`.
macro_rules! forward {
    ($inner:ident: $(fn $method:ident($($argument:ident: $kind:ty),*) -> $returns:ty;)+) => {$(
        fn $method(&self, $($argument: $kind),*) -> $returns {
            self.$inner.$method($($argument),*)
        }
    )+};
}

/// The methods of a `TableProvider` but for its scan, which leaves out what it can find by filters:
/// rows that do not match may remain.
macro_rules! inexact {
    ($schema:ident $(. $part:ident)*, $kind:ident) => {
        fn schema(&self) -> arrow::datatypes::SchemaRef {
            Arc::clone(&self.$schema $(. $part)*)
        }

        fn table_type(&self) -> TableType {
            TableType::$kind
        }

        fn supports_filters_pushdown(
            &self,
            filters: &[&Expr],
        ) -> Result<Vec<TableProviderFilterPushDown>> {
            Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
        }
    };
}

pub(crate) use {forward, inexact};
