//! Closed sets and their words: the list of all and the word of each come from one table, which the compiler holds to the type.

/// Gives an enum without data `ALL` and `as_str`, each of its values a row of `Value => "word"`. The comment is that of `as_str`.
///
/// A value without a row does not compile.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Light {
///     Red,
///     Green,
/// }
///
/// bailiff_model::words! {
///     /// Label value.
///     Light {
///         Red => "red",
///         Green => "green",
///     }
/// }
///
/// assert_eq!(Light::ALL.map(Light::as_str), ["red", "green"]);
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$comment:meta])* $type:ident { $($value:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// All of them, in the order of their table.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            $(#[$comment])*
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }
    };
}

/// Gives an enum with data `KINDS` and `kind`, each of its variants a row of `pattern => "word"`. The comment is that of `kind`.
///
/// A variant without a row does not compile.
///
/// ```
/// enum Answer {
///     Done,
///     Failed { why: String },
/// }
///
/// bailiff_model::kinds! {
///     /// Label value.
///     Answer {
///         Self::Done => "done",
///         Self::Failed { .. } => "failed",
///     }
/// }
///
/// assert_eq!(Answer::KINDS, ["done", "failed"]);
/// assert_eq!(Answer::Failed { why: String::new() }.kind(), "failed");
/// ```
#[macro_export]
macro_rules! kinds {
    ($(#[$comment:meta])* $type:ident { $($variant:pat => $word:literal),+ $(,)? }) => {
        impl $type {
            /// All that [`Self::kind`] answers.
            pub const KINDS: [&'static str; [$($word),+].len()] = [$($word),+];

            $(#[$comment])*
            pub const fn kind(&self) -> &'static str {
                match self {
                    $($variant => $word,)+
                }
            }
        }
    };
}
