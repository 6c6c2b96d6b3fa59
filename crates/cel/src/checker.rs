//! Types of expressions, before any is evaluated. Names are resolved on the way, so that evaluation does not look for them.

use crate::ast::{Expr, Fold, Node, Opt, Shape};
use crate::env::{Env, overloads, type_named};
use crate::error::{Issue, Issues};
use crate::types::{Bindings, Type};
use crate::value::Value;
use crate::{literals, value};

/// Finds the type of an expression, and what is wrong with it.
pub fn check(env: &Env, expr: &mut Expr, issues: &mut Issues) -> Type {
    let mut checker = Checker {
        env,
        issues,
        scope: Vec::new(),
        bindings: Bindings::default(),
        params: 0,
        mixed: false,
    };
    let of = checker.expr(expr);
    checker.bindings.settle(&of)
}

struct Checker<'a> {
    env: &'a Env,
    issues: &'a mut Issues,
    scope: Vec<(String, Type)>,
    bindings: Bindings,
    /// Type parameters in use.
    params: u32,
    /// Whether elements of one list may differ: what is formatted may.
    mixed: bool,
}

/// What elements of one list have in common.
enum Joined {
    /// A type.
    Same(Type),
    /// Nothing.
    Mixed,
}

impl Checker<'_> {
    /// What is wrong has any type, so that nothing else is said about it.
    fn wrong(&mut self, at: usize, why: String) -> Type {
        self.issues.push(Issue::new(at, why));
        Type::Dyn
    }

    fn fresh(&mut self) -> Type {
        self.params += 1;
        Type::Param(self.params)
    }

    fn expr(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        if matches!(expr.node, Node::Name(_) | Node::Select { .. })
            && let Some(of) = self.qualified(expr)
        {
            return of;
        }
        match &mut expr.node {
            Node::Literal(value) => literal(value),
            Node::Name(name) => {
                let why = format!("undeclared reference to '{name}' (in container '')");
                self.wrong(at, why)
            }
            Node::Global(_) | Node::Local(_) => Type::Dyn,
            Node::Select { of, field, optional } => {
                let optional = *optional;
                let whole = self.expr(of);
                self.select(at, &whole, field, optional)
            }
            Node::Has { of, field } => {
                let whole = self.expr(of);
                self.select(at, &whole, field, false);
                Type::plain("bool")
            }
            Node::Call { .. } => self.call(expr),
            Node::Logic { any, terms } => {
                let name = if *any { "_||_" } else { "_&&_" };
                self.logic(name, terms)
            }
            Node::If(parts) => self.branch(at, parts),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Message(name) => {
                let why = format!("undeclared reference to '{name}' (in container '')");
                self.wrong(at, why)
            }
            Node::Fold(fold) => self.fold(fold),
            Node::Opt(opt) => self.opt(at, opt),
        }
    }

    /// A name, with dots or not, that stands for one thing.
    fn qualified(&mut self, expr: &mut Expr) -> Option<Type> {
        let name = expr.qualified()?;
        let root = name.split('.').next().unwrap_or_default();
        if let Some(place) = self.scope.iter().rposition(|(one, _)| one == root) {
            if root.len() < name.len() {
                return None;
            }
            expr.node = Node::Local(place);
            return self.scope.get(place).map(|(_, of)| of.clone());
        }
        if let Some(of) = self.env.variable(&name) {
            expr.node = Node::Global(name);
            return Some(of.clone());
        }
        let of = type_named(&name)?;
        expr.node = Node::Literal(Value::Type(name.as_str().into()));
        Some(Type::Kind(of.into()))
    }

    fn select(&mut self, at: usize, whole: &Type, field: &str, optional: bool) -> Type {
        let whole = self.bindings.known(whole);
        let (whole, wrapped) = match whole {
            Type::Optional(of) => (Type::clone(&of), true),
            other => (other, optional),
        };
        let of = match self.bindings.known(&whole) {
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Map(_, value) => Type::clone(&value),
            Type::Object(object) => match self.env.field(&object, field) {
                Some(of) => of.clone(),
                None => return self.wrong(at, format!("undefined field '{field}'")),
            },
            other => return self.wrong(at, format!("type '{other}' does not support field selection")),
        };
        if wrapped { Type::Optional(of.into()) } else { of }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        let Node::Call { function, target, args } = &mut expr.node else {
            return Type::Dyn;
        };
        // A function whose name has a dot looks like a call on something.
        if let Some(of) = target
            && let Some(space) = of.qualified()
            && !self.scope.iter().any(|(name, _)| *name == space)
            && let name = format!("{space}.{function}")
            && overloads(&name).is_some()
        {
            *function = name;
            *target = None;
        }
        let mut given = Vec::new();
        let member = target.is_some();
        if let Some(target) = target {
            given.push(self.expr(target));
        }
        let known = overloads(function);
        if known.is_none() {
            let why = format!("undeclared reference to '{function}' (in container '')");
            self.wrong(at, why);
        }
        let before = self.mixed;
        self.mixed |= function == "format";
        for arg in args.iter_mut() {
            given.push(self.expr(arg));
        }
        self.mixed = before;
        let function = function.clone();
        let Some(overloads) = known else { return Type::Dyn };
        let mut found: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let base = self.params + 1;
            if overload.params.len() != given.len() {
                continue;
            }
            let mut bindings = self.bindings.clone();
            let wanted = overload.params.iter().map(|param| param.shifted(base));
            if !given.iter().zip(wanted).all(|(given, wanted)| bindings.fits(given, &wanted)) {
                continue;
            }
            self.params += 2;
            self.bindings = bindings;
            let result = self.bindings.known(&overload.result.shifted(base));
            found = Some(match found {
                None => result,
                Some(before) if before == result => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(of) = found {
            literals::check(&function, expr, self.issues);
            return of;
        }
        self.no_overload(at, &function, member, &given)
    }

    fn no_overload(&mut self, at: usize, function: &str, member: bool, given: &[Type]) -> Type {
        let given: Vec<String> = given.iter().map(|of| self.bindings.settle(of).to_string()).collect();
        let signature = match given.split_first() {
            Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", given.join(", ")),
        };
        self.wrong(
            at,
            format!("found no matching overload for '{function}' applied to '{signature}'"),
        )
    }

    fn logic(&mut self, name: &str, terms: &mut [(usize, Expr)]) -> Type {
        let bool = Type::plain("bool");
        let next: Vec<usize> = terms.iter().map(|(at, _)| *at).collect();
        for (nth, (at, term)) in terms.iter_mut().enumerate() {
            let of = self.expr(term);
            if self.bindings.fits(&of, &bool) {
                continue;
            }
            let of = self.bindings.settle(&of);
            let (at, pair) = if nth == 0 {
                (next.get(1).copied().unwrap_or(*at), format!("({of}, bool)"))
            } else {
                (*at, format!("(bool, {of})"))
            };
            self.wrong(at, format!("found no matching overload for '{name}' applied to '{pair}'"));
        }
        bool
    }

    fn branch(&mut self, at: usize, parts: &mut [Expr; 3]) -> Type {
        let [test, yes, no] = parts;
        let given = [self.expr(test), self.expr(yes), self.expr(no)];
        let [test, yes, no] = &given;
        if !self.bindings.fits(test, &Type::plain("bool")) || !self.bindings.fits(yes, no) {
            return self.no_overload(at, "_?_:_", false, &given);
        }
        let (yes, no) = (self.bindings.known(yes), self.bindings.known(no));
        if yes == no { yes } else { wider(yes, no) }
    }

    fn list(&mut self, items: &mut [(bool, Expr)]) -> Type {
        let mut common = None;
        for (optional, item) in items {
            let at = item.at;
            let of = self.expr(item);
            let of = if *optional { self.unwrapped(at, &of) } else { of };
            common = Some(self.join(at, common, of));
        }
        let of = self.joined(common);
        Type::list(of)
    }

    fn map(&mut self, entries: &mut [(bool, Expr, Expr)]) -> Type {
        let (mut keys, mut values) = (None, None);
        for (optional, key, value) in entries {
            let key_type = self.expr(key);
            let is_key = ["bool", "int", "uint", "string"].iter().any(|name| key_type.is(name));
            if !is_key && !matches!(self.bindings.known(&key_type), Type::Dyn | Type::Param(_)) {
                let shown = self.bindings.settle(&key_type);
                self.wrong(key.at, format!("unsupported map key type: {shown}"));
            }
            keys = Some(self.join(key.at, keys, key_type));
            let at = value.at;
            let of = self.expr(value);
            let of = if *optional { self.unwrapped(at, &of) } else { of };
            values = Some(self.join(at, values, of));
        }
        let (keys, values) = (self.joined(keys), self.joined(values));
        Type::map(keys, values)
    }

    /// What an optional element is if it is there.
    fn unwrapped(&mut self, at: usize, of: &Type) -> Type {
        match self.bindings.known(of) {
            Type::Optional(inner) => Type::clone(&inner),
            Type::Dyn | Type::Param(_) => Type::Dyn,
            other => {
                let why = format!("expected type 'optional_type({other})' but found '{other}'");
                self.wrong(at, why)
            }
        }
    }

    /// The type of elements that were gone through.
    fn joined(&mut self, common: Option<Joined>) -> Type {
        match common {
            None => self.fresh(),
            Some(Joined::Mixed) => Type::Dyn,
            Some(Joined::Same(of)) => of,
        }
    }

    /// Elements of one list are of one type.
    fn join(&mut self, at: usize, common: Option<Joined>, of: Type) -> Joined {
        let common = match common {
            None => return Joined::Same(of),
            Some(Joined::Mixed) => return Joined::Mixed,
            Some(Joined::Same(common)) => common,
        };
        let (before, now) = (self.bindings.known(&common), self.bindings.known(&of));
        let open = |of: &Type| matches!(of, Type::Param(_));
        let differ = matches!(before, Type::Dyn) != matches!(now, Type::Dyn) && !open(&before) && !open(&now);
        if !differ && self.bindings.fits(&of, &common) {
            return Joined::Same(common);
        }
        if !self.mixed {
            self.wrong(at, format!("expected type '{before}' but found '{now}'"));
        }
        Joined::Mixed
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let range = self.expr(&mut fold.range);
        let range = self.bindings.known(&range);
        let at = fold.range.at;
        let (key, value, is_map) = match &range {
            Type::List(of) => (Type::plain("int"), Type::clone(of), false),
            Type::Map(key, value) => (Type::clone(key), Type::clone(value), true),
            Type::Dyn | Type::Param(_) => (Type::Dyn, Type::Dyn, false),
            other => {
                let why =
                    format!("expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)");
                self.wrong(at, why);
                (Type::Dyn, Type::Dyn, false)
            }
        };
        let before = self.scope.len();
        match fold.names.as_slice() {
            [one] => self.scope.push((one.clone(), if is_map { key.clone() } else { value })),
            [first, second] => {
                self.scope.push((first.clone(), key.clone()));
                self.scope.push((second.clone(), value));
            }
            _ => {}
        }
        if let Some(filter) = &mut fold.filter {
            let of = self.expr(filter);
            self.expect_bool(filter.at, &of);
        }
        let body = self.expr(&mut fold.body);
        if matches!(fold.shape, Shape::All | Shape::Exists | Shape::ExistsOne | Shape::Filter) {
            self.expect_bool(fold.body.at, &body);
        }
        self.scope.truncate(before);
        match fold.shape {
            Shape::All | Shape::Exists | Shape::ExistsOne => Type::plain("bool"),
            Shape::Filter if is_map => Type::list(key),
            Shape::Filter | Shape::SortBy if matches!(range, Type::List(_)) => range,
            Shape::Filter | Shape::SortBy => Type::list(Type::Dyn),
            Shape::Map => Type::list(body),
            Shape::TransformMap => Type::map(key, body),
            Shape::TransformEntry => match self.bindings.known(&body) {
                map @ Type::Map(..) => map,
                _ => Type::map(Type::Dyn, Type::Dyn),
            },
        }
    }

    fn expect_bool(&mut self, at: usize, of: &Type) {
        if !self.bindings.fits(of, &Type::plain("bool")) {
            let shown = self.bindings.settle(of);
            self.wrong(at, format!("expected type 'bool' but found '{shown}'"));
        }
    }

    fn opt(&mut self, at: usize, opt: &mut Opt) -> Type {
        let of = self.expr(&mut opt.of);
        let inner = match self.bindings.known(&of) {
            Type::Optional(inner) => Type::clone(&inner),
            Type::Dyn | Type::Param(_) => Type::Dyn,
            other => {
                let name = if opt.flat { "optFlatMap" } else { "optMap" };
                return self.wrong(at, format!("found no matching overload for '{name}' applied to '{other}.()'"));
            }
        };
        self.scope.push((opt.name.clone(), inner));
        let body = self.expr(&mut opt.body);
        self.scope.pop();
        match self.bindings.known(&body) {
            flat @ Type::Optional(_) if opt.flat => flat,
            Type::Dyn | Type::Param(_) if opt.flat => Type::Optional(Type::Dyn.into()),
            other if opt.flat => self.wrong(
                at,
                format!("found no matching overload for '_?_:_' applied to '(bool, {other}, optional_type(dyn))'"),
            ),
            other => Type::Optional(other.into()),
        }
    }
}

/// Of two types that fit each other, the one that says less.
fn wider(one: Type, other: Type) -> Type {
    match (&one, &other) {
        (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
        (Type::Plain(name), _) if **name == *"null" => other,
        (Type::List(_), Type::List(_)) => Type::list(Type::Dyn),
        (Type::Map(..), Type::Map(..)) => Type::map(Type::Dyn, Type::Dyn),
        _ => one,
    }
}

fn literal(value: &Value) -> Type {
    match value {
        value::Value::Null => Type::plain("null"),
        value => Type::plain(value.type_name()),
    }
}
