//! Enums whose values have names.

/// Defines an enum with a name for each value: `ALL` of them, a method that returns the name, and,
/// if it is wanted, a function that returns the value of a name.
///
/// ```
/// steplake_model::named! {
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     enum Mode {
///         Fast = "fast",
///         Careful = "careful",
///     }
///     fn name;
///     fn from_name;
/// }
/// assert_eq!(Mode::ALL.map(Mode::name), ["fast", "careful"]);
/// assert_eq!(Mode::from_name("careful"), Some(Mode::Careful));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$value_meta:meta])* $value:ident = $text:literal,)+
        }

        $(#[$doc:meta])*
        fn $method:ident;
        $(fn $from:ident;)?
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$value_meta])* $value,)+
        }

        impl $name {
            /// All of them.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            $(#[$doc])*
            $vis fn $method(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            $(
                /// Returns the one with this name, if there is one.
                $vis fn $from(name: &str) -> Option<Self> {
                    Self::ALL.into_iter().find(|known| known.$method() == name)
                }
            )?
        }
    };
}
