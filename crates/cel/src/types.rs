//! Types of expressions, and what fits what.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Anything; found out when it is evaluated.
    Dyn,
    /// A type without parts, by name: `int`, `string`, `null`, `timestamp`, `kubernetes.Quantity` …
    Plain(Arc<str>),
    /// A list.
    List(Arc<Type>),
    /// A map.
    Map(Arc<Type>, Arc<Type>),
    /// A value that may be missing.
    Optional(Arc<Type>),
    /// The type of a type.
    Kind(Arc<Type>),
    /// An object with known fields, by name.
    Object(Arc<str>),
    /// Any one type, the same wherever this stands.
    Param(u32),
}

/// What type parameters stand for.
#[derive(Clone, Debug, Default)]
pub struct Bindings(BTreeMap<u32, Type>);

impl Type {
    /// A type without parts.
    pub fn plain(name: &str) -> Self {
        Self::Plain(name.into())
    }

    /// A list of these.
    pub fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    /// A map of these.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// Whether it is this type without parts.
    pub fn is(&self, name: &str) -> bool {
        matches!(self, Self::Plain(plain) if **plain == *name)
    }

    /// The type that a text names: `int`, `list(A)`, `map(string,dyn)`.
    pub fn parse(text: &str) -> Self {
        let inside = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(of) = inside("list") {
            return Self::list(Self::parse(of));
        }
        if let Some(of) = inside("optional") {
            return Self::Optional(Arc::new(Self::parse(of)));
        }
        if let Some(of) = inside("type") {
            return Self::Kind(Arc::new(Self::parse(of)));
        }
        if let Some(of) = inside("map") {
            let (key, value) = of.split_once(',').unwrap_or((of, "dyn"));
            return Self::map(Self::parse(key), Self::parse(value));
        }
        match text {
            "dyn" => Self::Dyn,
            "A" => Self::Param(0),
            "B" => Self::Param(1),
            _ => Self::plain(text),
        }
    }

    /// The same with other parameters, so that two uses do not share them.
    #[must_use]
    pub fn shifted(&self, by: u32) -> Self {
        self.with(&|param| Self::Param(param + by))
    }

    fn with(&self, param: &dyn Fn(u32) -> Self) -> Self {
        match self {
            Self::List(of) => Self::list(of.with(param)),
            Self::Map(key, value) => Self::map(key.with(param), value.with(param)),
            Self::Optional(of) => Self::Optional(Arc::new(of.with(param))),
            Self::Kind(of) => Self::Kind(Arc::new(of.with(param))),
            Self::Param(number) => param(*number),
            _ => self.clone(),
        }
    }

    fn mentions(&self, param: u32) -> bool {
        match self {
            Self::List(of) | Self::Optional(of) | Self::Kind(of) => of.mentions(param),
            Self::Map(key, value) => key.mentions(param) || value.mentions(param),
            Self::Param(number) => *number == param,
            _ => false,
        }
    }

    /// Its name where an expression as a whole is spoken of.
    pub fn formal(&self) -> String {
        match self {
            Self::Plain(name) => match &**name {
                "null" => "null_type".to_owned(),
                "timestamp" => "google.protobuf.Timestamp".to_owned(),
                "duration" => "google.protobuf.Duration".to_owned(),
                name => name.to_owned(),
            },
            Self::List(of) => format!("list({})", of.formal()),
            Self::Map(key, value) => format!("map({}, {})", key.formal(), value.formal()),
            Self::Optional(of) => format!("optional_type({})", of.formal()),
            _ => self.to_string(),
        }
    }
}

impl Bindings {
    /// The type with everything that is known put in; what is not is anything.
    pub fn settle(&self, of: &Type) -> Type {
        self.resolve(of, true)
    }

    /// The type with everything that is known put in.
    pub fn known(&self, of: &Type) -> Type {
        self.resolve(of, false)
    }

    fn resolve(&self, of: &Type, settle: bool) -> Type {
        of.with(&|param| match self.0.get(&param) {
            Some(bound) => self.resolve(bound, settle),
            None if settle => Type::Dyn,
            None => Type::Param(param),
        })
    }

    /// Whether a value of the first type can be where the second is wanted.
    pub fn fits(&mut self, given: &Type, wanted: &Type) -> bool {
        let before = self.clone();
        let fits = self.unify(given, wanted);
        if !fits {
            *self = before;
        }
        fits
    }

    fn unify(&mut self, given: &Type, wanted: &Type) -> bool {
        let (given, wanted) = (self.known(given), self.known(wanted));
        match (&given, &wanted) {
            (Type::Param(one), Type::Param(other)) if one == other => true,
            (Type::Dyn, Type::Param(_)) | (Type::Param(_), Type::Dyn) => true,
            (other, Type::Param(param)) | (Type::Param(param), other) => {
                if other.mentions(*param) {
                    return false;
                }
                self.0.insert(*param, other.clone());
                true
            }
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => self.unify(one, other),
            // Types of values are values of one type, whichever they are.
            (Type::Kind(_), Type::Kind(_)) => true,
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.unify(key, other_key) && self.unify(value, other_value)
            }
            // What can be absent can be compared with nothing.
            (Type::Plain(name), other) | (other, Type::Plain(name))
                if **name == *"null" && matches!(other, Type::Object(_) | Type::Optional(_)) =>
            {
                true
            }
            (Type::Plain(one), Type::Plain(other)) => {
                let nullable = |name: &str| name.contains('.') || matches!(name, "timestamp" | "duration");
                one == other || (**one == *"null" && nullable(other)) || (**other == *"null" && nullable(one))
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Plain(name) | Self::Object(name) => f.write_str(name),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Kind(of) => write!(f, "type({of})"),
        }
    }
}
