//! The file of `--roles`, which replaces the built-in table.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bailiff_model::Topic;
use serde::Deserialize;

use super::{Action, Grants, Roles};

/// A hundred times what a table of many roles takes.
const FILE_MAX: u64 = 1024 * 1024;

/// Why a file of roles cannot be used; the flag, what is wrong and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read '{}' for '--roles'", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not of the schema.
    #[error("invalid value '{}' for '--roles': {detail}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Field, value, and what is allowed.
        detail: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    roles: BTreeMap<String, Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    publish: Vec<String>,
    subscribe: Vec<String>,
    read: Vec<String>,
    reset: Vec<String>,
}

// === impl Roles ===

impl Roles {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not of the schema.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let refuse = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(refuse)?;
        file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(refuse)?;
        if text.len() as u64 > FILE_MAX {
            return Err(refuse(io::Error::other("it is larger than 1 MiB")));
        }
        Self::parse(&text).map_err(|detail| Error::Content {
            path: path.to_owned(),
            detail,
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Field, value, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the file is empty: allowed is a map with 'roles'".to_owned());
        }
        let File { roles } = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        if roles.is_empty() {
            return Err("roles: allowed is at least one role; without any nobody may do anything".to_owned());
        }
        let mut grants = BTreeMap::new();
        for (role, entry) in roles {
            if !is_role(&role) {
                let allowed = "what follows the trust domain in spiffe://<trust domain>/<role>: words of letters, digits, '-', '.' and '_', separated by '/'";
                return Err(format!("roles: invalid name {role:?}: allowed is {allowed}"));
            }
            let of_role = entry.grants(&role)?;
            grants.insert(role, of_role);
        }
        Ok(Self { grants })
    }
}

fn is_role(text: &str) -> bool {
    format!("spiffe://domain/{text}")
        .parse::<bailiff_runtime::tls::Identity>()
        .is_ok()
}

// === impl Entry ===

impl Entry {
    fn grants(self, role: &str) -> Result<Grants, String> {
        let Self {
            publish,
            subscribe,
            read,
            reset,
        } = self;
        let lists = [
            (Action::Publish, publish),
            (Action::Subscribe, subscribe),
            (Action::Read, read),
            (Action::Reset, reset),
        ];
        let mut grants = Grants::new();
        for (action, names) in lists {
            let mut topics = BTreeSet::new();
            for (index, name) in names.iter().enumerate() {
                let field = || format!("roles.{role}.{action}[{index}]");
                match (name.as_str(), Topic::parse(name)) {
                    ("*", _) => topics.extend(Topic::ALL),
                    (_, Some(topic)) => {
                        topics.insert(topic);
                    }
                    (_, None) => {
                        let topics = Topic::ALL.map(Topic::as_str).join(", ");
                        return Err(format!(
                            "{}: invalid value {name:?}: allowed is {topics}, or \"*\" for all",
                            field()
                        ));
                    }
                }
            }
            grants.insert(action, topics);
        }
        Ok(grants)
    }
}
