//! Where in an object one is.

use std::fmt;

/// Where in an object one is.
pub enum Path<'a> {
    /// At its top.
    Root,
    /// At a field of a type of this name.
    Member(&'a Path<'a>, &'a str, &'a str),
    /// At a field, or a key of a map.
    Field(&'a Path<'a>, &'a str),
    /// At an item of a list.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// The same as Go's decoder says it: the type that has the field, and fields of types alone.
    pub fn in_go(&self) -> String {
        let (mut names, mut owner, mut at) = (Vec::new(), None, self);
        loop {
            at = match at {
                Self::Root => break,
                Self::Member(parent, of, name) => {
                    owner.get_or_insert(*of);
                    names.push(*name);
                    parent
                }
                Self::Field(parent, _) | Self::Index(parent, _) => parent,
            };
        }
        names.extend(owner);
        names.reverse();
        names.join(".")
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) | Self::Member(Self::Root, _, name) => f.write_str(name),
            Self::Field(parent, name) | Self::Member(parent, _, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
