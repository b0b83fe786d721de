/// How the compiler failed, as `failures` tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureText<'a> {
    pub(crate) kind: &'a str,
    pub(crate) detail: Option<&'a str>,
}
