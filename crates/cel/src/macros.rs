//! Calls that are no functions: `has`, and those that go through a range with a name for each element.

use crate::ast::{Expr, Fold, MOST_LEVELS, Node, Opt, Shape};
use crate::parser::{Parser, Stop};

/// What a global call means.
pub fn global(parser: &mut Parser<'_>, at: usize, function: String, mut args: Vec<Expr>) -> Result<Expr, Stop> {
    if function == "has" && args.len() == 1 {
        let Some(of) = args.pop() else { return Err(Stop) };
        return match of.node {
            Node::Select {
                of,
                field,
                optional: false,
            } => Ok(Expr::new(at, Node::Has { of, field })),
            _ => parser.fail(of.at, "invalid argument to has() macro"),
        };
    }
    checked(parser, Expr::call(at, &function, args))
}

/// What a call on something means.
pub fn member(parser: &mut Parser<'_>, at: usize, of: Expr, function: String, args: Vec<Expr>) -> Result<Expr, Stop> {
    let shape = match (function.as_str(), args.len()) {
        ("all", 2 | 3) => Some((Shape::All, args.len() - 1)),
        ("exists", 2 | 3) => Some((Shape::Exists, args.len() - 1)),
        ("exists_one" | "existsOne", 2 | 3) => Some((Shape::ExistsOne, args.len() - 1)),
        ("filter", 2) => Some((Shape::Filter, 1)),
        ("map", 2 | 3) => Some((Shape::Map, 1)),
        ("sortBy", 2) => Some((Shape::SortBy, 1)),
        ("transformList", 3 | 4) => Some((Shape::Map, 2)),
        ("transformMap", 3 | 4) => Some((Shape::TransformMap, 2)),
        ("transformMapEntry", 3 | 4) => Some((Shape::TransformEntry, 2)),
        _ => None,
    };
    if let Some((shape, names)) = shape {
        return fold(parser, at, (shape, names), of, args);
    }
    if let ("optMap" | "optFlatMap", 2) = (function.as_str(), args.len()) {
        let mut args = args.into_iter();
        let (Some(name), Some(body)) = (args.next(), args.next()) else {
            return Err(Stop);
        };
        let name = simple(parser, &name)?;
        let flat = function == "optFlatMap";
        return checked(parser, Expr::new(at, Node::Opt(Box::new(Opt { flat, of, name, body }))));
    }
    let target = Some(Box::new(of));
    checked(parser, Expr::new(at, Node::Call { function, target, args }))
}

fn fold(parser: &mut Parser<'_>, at: usize, (shape, count): (Shape, usize), range: Expr, args: Vec<Expr>) -> Result<Expr, Stop> {
    let mut args = args.into_iter();
    let mut names = Vec::new();
    for name in args.by_ref().take(count) {
        let name_at = name.at;
        let name = simple(parser, &name)?;
        if names.contains(&name) {
            return parser.fail(name_at, format!("duplicate variable name: {name}"));
        }
        names.push(name);
    }
    let (first, second) = (args.next(), args.next());
    let (filter, body) = match (first, second) {
        (Some(filter), Some(body)) => (Some(filter), body),
        (Some(body), None) => (None, body),
        _ => return Err(Stop),
    };
    let fold = Fold {
        shape,
        range,
        names,
        filter,
        body,
    };
    checked(parser, Expr::new(at, Node::Fold(Box::new(fold))))
}

fn simple(parser: &mut Parser<'_>, expr: &Expr) -> Result<String, Stop> {
    match &expr.node {
        Node::Name(name) => Ok(name.clone()),
        _ => parser.fail(expr.at, "argument must be a simple name"),
    }
}

fn checked(parser: &mut Parser<'_>, expr: Expr) -> Result<Expr, Stop> {
    if expr.height > MOST_LEVELS {
        return parser.fail(0, format!("expression recursion limit exceeded: {MOST_LEVELS}"));
    }
    Ok(expr)
}
