//! An expression as a tree. It is never higher than [`MOST_LEVELS`], so whoever walks it may recurse.

use crate::value::Value;

/// Levels of a tree, as the reference implementation allows its parser.
pub const MOST_LEVELS: usize = 250;

/// A part of an expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Where it is, in bytes: operators, calls and indices are where their sign is.
    pub at: usize,
    /// Levels below and including this one.
    pub height: usize,
    /// What it is.
    pub node: Node,
}

/// What a part of an expression is.
#[derive(Clone, Debug)]
pub enum Node {
    /// A constant.
    Literal(Value),
    /// A name that is not resolved.
    Name(String),
    /// A variable of the surroundings.
    Global(String),
    /// A variable of a macro, by its place among those in scope.
    Local(usize),
    /// `of.field`, `of.?field`.
    Select {
        /// The whole.
        of: Box<Expr>,
        /// The part.
        field: String,
        /// Whether it may be absent.
        optional: bool,
    },
    /// `has(of.field)`.
    Has {
        /// The whole.
        of: Box<Expr>,
        /// The part.
        field: String,
    },
    /// A function or operator.
    Call {
        /// Its name.
        function: String,
        /// What it is called on.
        target: Option<Box<Expr>>,
        /// What it is called with.
        args: Vec<Expr>,
    },
    /// `a && b && …`, or with `||` if it says so; each with the place of the operator before it.
    Logic {
        /// Whether one is enough.
        any: bool,
        /// The operands.
        terms: Vec<(usize, Expr)>,
    },
    /// `test ? yes : no`.
    If(Box<[Expr; 3]>),
    /// `[a, ?b]`.
    List(Vec<(bool, Expr)>),
    /// `{a: b, ?c: d}`.
    Map(Vec<(bool, Expr, Expr)>),
    /// `Name{…}`.
    Message(String),
    /// A macro over a range.
    Fold(Box<Fold>),
    /// `optMap`, `optFlatMap`.
    Opt(Box<Opt>),
}

/// What a macro makes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Whether it holds for all.
    All,
    /// Whether it holds for one or more.
    Exists,
    /// Whether it holds for one.
    ExistsOne,
    /// Those it holds for.
    Filter,
    /// A list of what becomes of each.
    Map,
    /// A map of what becomes of each, under the same key.
    TransformMap,
    /// A map of the entries that each becomes.
    TransformEntry,
    /// Elements in the order of their keys.
    SortBy,
}

/// A macro over a range.
#[derive(Clone, Debug)]
pub struct Fold {
    /// What comes of it.
    pub shape: Shape,
    /// What is gone through.
    pub range: Expr,
    /// Name of each element or key; of key and value.
    pub names: Vec<String>,
    /// Which elements count.
    pub filter: Option<Expr>,
    /// What is asked of, or becomes of, each.
    pub body: Expr,
}

/// A macro over an optional value.
#[derive(Clone, Debug)]
pub struct Opt {
    /// Whether the body says itself whether there is a value.
    pub flat: bool,
    /// The optional value.
    pub of: Expr,
    /// Its name in the body.
    pub name: String,
    /// What becomes of it.
    pub body: Expr,
}

impl Expr {
    /// A part at a place.
    pub fn new(at: usize, node: Node) -> Self {
        let mut height = 0;
        node.each(&mut |part| height = height.max(part.height));
        Self {
            at,
            height: height + 1,
            node,
        }
    }

    /// A call of an operator or a global function.
    pub fn call(at: usize, function: &str, args: Vec<Self>) -> Self {
        Self::new(
            at,
            Node::Call {
                function: function.to_owned(),
                target: None,
                args,
            },
        )
    }

    /// `a.b.c` if it is nothing but names.
    pub fn qualified(&self) -> Option<String> {
        match &self.node {
            Node::Name(name) => Some(name.clone()),
            Node::Select {
                of,
                field,
                optional: false,
            } => Some(format!("{}.{field}", of.qualified()?)),
            _ => None,
        }
    }
}

impl Node {
    /// Visits the parts right below.
    pub fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Literal(_) | Self::Name(_) | Self::Global(_) | Self::Local(_) | Self::Message(_) => {}
            Self::Select { of, .. } | Self::Has { of, .. } => visit(of),
            Self::Call { target, args, .. } => target.iter().map(|target| &**target).chain(args).for_each(visit),
            Self::Logic { terms, .. } => terms.iter().for_each(|(_, term)| visit(term)),
            Self::If(parts) => parts.iter().for_each(visit),
            Self::List(items) => items.iter().for_each(|(_, item)| visit(item)),
            Self::Map(entries) => entries.iter().for_each(|(_, key, value)| {
                visit(key);
                visit(value);
            }),
            Self::Fold(fold) => {
                visit(&fold.range);
                fold.filter.iter().for_each(&mut *visit);
                visit(&fold.body);
            }
            Self::Opt(opt) => {
                visit(&opt.of);
                visit(&opt.body);
            }
        }
    }
}
