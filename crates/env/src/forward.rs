//! Wrappers of sessions and environments.

/// Forwards methods of a [`Session`](crate::Session) or an
/// [`Environment`](crate::Environment) to what a wrapper holds, by
/// `forward!(self => self.inner; identify, text);` in its `impl`.
///
/// That `impl` denies `clippy::missing_trait_methods`, so that the wrapper cannot forget a method:
/// a default would answer in the place of what it holds. A method that is not forwarded is written
/// out, with the reason. `session` and `within` cannot be forwarded: what they return would lack
/// the wrapper.
#[macro_export]
macro_rules! forward {
    (@ref $method:ident($($arg:ident: $kind:ty),*) -> $of:ty; $this:ident => $inner:expr) => {
        fn $method(&$this, $($arg: $kind),*) -> $of {
            $inner.$method($($arg),*)
        }
    };
    (@mut $method:ident($($arg:ident: $kind:ty),*) -> $of:ty; $this:ident => $inner:expr) => {
        fn $method(&mut $this, $($arg: $kind),*) -> $of {
            $inner.$method($($arg),*)
        }
    };
    (@spec $($to:tt)+) => {
        $crate::forward!(@ref spec() -> &$crate::model::EnvironmentSpec; $($to)+);
    };
    (@repeated_windows $($to:tt)+) => {
        $crate::forward!(@ref repeated_windows() -> u64; $($to)+);
    };
    (@audit_session $($to:tt)+) => {
        $crate::forward!(@ref audit_session()
            -> Result<Option<Box<dyn $crate::Session>>, $crate::SessionError>; $($to)+);
    };
    (@served $($to:tt)+) => {
        $crate::forward!(@ref served() -> Option<&$crate::RemoteService>; $($to)+);
    };
    (@may_live_here $($to:tt)+) => {
        $crate::forward!(@ref may_live_here() -> bool; $($to)+);
    };
    (@keyframes $($to:tt)+) => {
        $crate::forward!(@ref keyframes() -> ::std::num::NonZeroU32; $($to)+);
    };
    (@choices $($to:tt)+) => {
        $crate::forward!(@ref choices() -> Option<&dyn $crate::Choices>; $($to)+);
    };
    (@front_end $($to:tt)+) => {
        $crate::forward!(@ref front_end() -> $crate::programs::datasets::FrontEnd; $($to)+);
    };
    (@own_datasets $($to:tt)+) => {
        $crate::forward!(@ref own_datasets()
            -> Vec<Box<dyn $crate::programs::datasets::Dataset>>; $($to)+);
    };
    (@start $($to:tt)+) => {
        $crate::forward!(@mut start(start: &$crate::Start<'_>)
            -> Result<$crate::Started, $crate::SessionError>; $($to)+);
    };
    (@apply $($to:tt)+) => {
        $crate::forward!(@mut apply(action: $crate::model::ActionIndex)
            -> Result<$crate::model::Step, $crate::SessionError>; $($to)+);
    };
    (@apply_unchecked $($to:tt)+) => {
        $crate::forward!(@mut apply_unchecked(action: $crate::model::ActionIndex)
            -> Result<$crate::model::Step, $crate::SessionError>; $($to)+);
    };
    (@check $($to:tt)+) => {
        $crate::forward!(@mut check()
            -> Result<Option<$crate::model::Failure>, $crate::SessionError>; $($to)+);
    };
    (@identify $($to:tt)+) => {
        $crate::forward!(@mut identify(state: &[u8])
            -> Result<$crate::model::StateId, $crate::SessionError>; $($to)+);
    };
    (@text $($to:tt)+) => {
        $crate::forward!(@mut text(state: &[u8]) -> Result<String, $crate::SessionError>; $($to)+);
    };
    (@multistep $($to:tt)+) => {
        $crate::forward!(@mut multistep(
            actions: &[$crate::model::ActionIndex], visit: &mut $crate::Visit<'_>
        ) -> Result<(), $crate::SessionError>; $($to)+);
    };
    (@announce $this:ident => $inner:expr) => {
        fn announce(&mut $this, actions: &[$crate::model::ActionIndex]) {
            $inner.announce(actions);
        }
    };
    (@observe $($to:tt)+) => {
        $crate::forward!(@mut observe(space: $crate::model::ObservationIndex)
            -> Result<$crate::model::Value, $crate::SessionError>; $($to)+);
    };
    (@fork $($to:tt)+) => {
        $crate::forward!(@mut fork()
            -> Result<Box<dyn $crate::Session>, $crate::SessionError>; $($to)+);
    };
    ($this:ident => $inner:expr; $($method:ident),+) => {
        $($crate::forward!(@$method $this => $inner);)+
    };
}
