//! Who owns which fields of an object: `metadata.managedFields`.

use bailiff_model::Wall;
use serde_json::{Map, Value, json};

use super::fields::{Changes, Fields};
use super::{nothing, root};
use crate::api::Call;
use crate::rules::{equal, items, text};
use crate::schema::time;

/// Whose fields they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The manager's name.
    pub manager: String,
    /// Whether it applied them, or just wrote them.
    pub apply: bool,
    /// The version in which it wrote them.
    pub api_version: String,
    /// The subresource through which it wrote them.
    pub subresource: String,
}

/// All managers of an object.
#[derive(Clone, Debug, Default)]
pub struct Managers(Vec<(Entry, String, Fields)>);

impl Entry {
    fn read(written: &Value) -> Self {
        Self {
            manager: text(written, "/manager").to_owned(),
            apply: text(written, "/operation") == "Apply",
            api_version: text(written, "/apiVersion").to_owned(),
            subresource: text(written, "/subresource").to_owned(),
        }
    }

    /// As refusals name it.
    pub fn shown(&self) -> String {
        let mut shown = format!("\"{}\"", self.manager);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource \"{}\"", self.subresource));
        }
        if !self.apply {
            shown.push_str(&format!(" using {}", self.api_version));
        }
        shown
    }
}

impl Managers {
    /// The managers of an object.
    pub fn of(object: &Value) -> Self {
        let entries = items(object, "/metadata/managedFields").iter().map(|entry| {
            let fields = entry.get("fieldsV1").map(Fields::read).unwrap_or_default();
            (Entry::read(entry), text(entry, "/time").to_owned(), fields)
        });
        Self(entries.collect())
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of one of them.
    pub fn get(&self, entry: &Entry) -> Option<&Fields> {
        self.0.iter().find(|(one, _, _)| one == entry).map(|(_, _, fields)| fields)
    }

    /// The fields of all but one.
    pub fn others(&self, entry: &Entry) -> Fields {
        let others = self.0.iter().filter(|(one, _, _)| one != entry);
        others.fold(Fields::default(), |all, (_, _, fields)| all.union(fields))
    }

    /// Gives one of them exactly these fields.
    pub fn set(&mut self, entry: Entry, fields: Fields, now: Wall) {
        match self.0.iter_mut().find(|(one, _, _)| *one == entry) {
            Some((_, at, current)) if *current == fields && !at.is_empty() => {}
            Some((_, at, current)) => {
                *at = time::seconds(now);
                *current = fields;
            }
            None => self.0.push((entry, time::seconds(now), fields)),
        }
        self.0.retain(|(_, _, fields)| !fields.is_empty());
    }

    /// The same where the object stays as it is: such an apply leaves no time.
    pub fn restate(&mut self, entry: Entry, fields: Fields) {
        match self.0.iter_mut().find(|(one, _, _)| *one == entry) {
            Some((_, _, current)) => *current = fields,
            None => self.0.push((entry, String::new(), fields)),
        }
        self.0.retain(|(_, _, fields)| !fields.is_empty());
    }

    /// Takes fields from all but one.
    pub fn lose(&mut self, entry: &Entry, fields: &Fields) {
        for (_, _, owned) in self.0.iter_mut().filter(|(one, _, _)| one != entry) {
            *owned = owned.minus(fields);
        }
        self.0.retain(|(_, _, fields)| !fields.is_empty());
    }

    /// Who owns any of the fields.
    pub fn owners(&self, fields: &Fields) -> Vec<Entry> {
        let owners = self.0.iter().filter(|(_, _, owned)| !owned.both(fields).is_empty());
        owners.map(|(owner, _, _)| owner.clone()).collect()
    }

    /// Which of the fields others than `entry` own: who, and the path.
    pub fn conflicts(&self, entry: &Entry, fields: &Fields) -> Vec<(String, String)> {
        let mut conflicts = Vec::new();
        for (owner, _, owned) in self.0.iter().filter(|(one, _, _)| one != entry) {
            let paths = owned.both(fields).paths();
            conflicts.extend(paths.into_iter().map(|path| (owner.shown(), path)));
        }
        conflicts
    }

    /// Writes them into an object.
    pub fn write(&self, object: &mut Value) {
        let mut entries: Vec<&(Entry, String, Fields)> = self.0.iter().collect();
        entries.sort_by_key(|(entry, at, _)| (!entry.apply, at.clone(), entry.manager.clone()));
        let list: Vec<Value> = entries
            .into_iter()
            .map(|(entry, at, fields)| written(entry, at, fields))
            .collect();
        let metadata = crate::rules::section(object, "metadata");
        if list.is_empty() {
            metadata.shift_remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(list));
        }
    }
}

fn written(entry: &Entry, at: &str, fields: &Fields) -> Value {
    let mut map = Map::new();
    map.insert("manager".to_owned(), entry.manager.as_str().into());
    map.insert("operation".to_owned(), if entry.apply { "Apply" } else { "Update" }.into());
    map.insert("apiVersion".to_owned(), entry.api_version.as_str().into());
    if !at.is_empty() {
        map.insert("time".to_owned(), at.into());
    }
    map.insert("fieldsType".to_owned(), json!("FieldsV1"));
    map.insert("fieldsV1".to_owned(), fields.write());
    if !entry.subresource.is_empty() {
        map.insert("subresource".to_owned(), entry.subresource.as_str().into());
    }
    Value::Object(map)
}

/// Records a plain write: who wrote owns what changed; whoever owned it before does no more. `old` is nothing for a new object.
pub fn track(call: &Call<'_>, old: Option<&Value>, object: &mut Value) {
    if !call.sandbox.config().managed_fields {
        return;
    }
    // A client may write the record itself, but for a new object or through a subresource.
    let written = items(object, "/metadata/managedFields");
    let before = old.map_or(&[][..], |old| items(old, "/metadata/managedFields"));
    let own_record = old.is_some() && !call.about_status() && !written.is_empty() && !is_same(written, before);
    let reset = written
        .iter()
        .all(|entry| entry.get("manager").is_none() && entry.get("operation").is_none());
    // Objects that nobody owns anything of stay so until somebody applies to them.
    let untracked = old.is_some() && before.is_empty();
    if (own_record && reset) || (untracked && !own_record) {
        crate::rules::section(object, "metadata").shift_remove("managedFields");
        return;
    }
    let ty = root(call);
    let mut changes = match old {
        Some(old) => Fields::changes(old, object, ty.as_ref()),
        None => Fields::changes(&nothing(call), object, ty.as_ref()),
    };
    changes.set.forget_system(call.about_status(), call.kind.status);
    changes.removed.forget_system(call.about_status(), call.kind.status);
    let entry = Entry {
        manager: manager(call),
        apply: false,
        api_version: call.kind.api_version(),
        subresource: call.target.subresource.clone(),
    };
    if !own_record && is_settled(before, &entry, &changes) {
        if !is_same(written, before) {
            let record = Value::Array(before.to_vec());
            crate::rules::section(object, "metadata").insert("managedFields".to_owned(), record);
        }
        return;
    }
    let mut managers = match old {
        Some(_) if own_record => Managers::of(object),
        Some(old) => Managers::of(old),
        None => Managers::default(),
    };
    managers.lose(&entry, &changes.set);
    managers.lose(&entry, &changes.removed);
    let own = managers.get(&entry).cloned().unwrap_or_default();
    let own = own.union(&changes.set).minus(&changes.removed);
    managers.set(entry, own, call.now.wall);
    managers.write(object);
}

fn is_same(one: &[Value], other: &[Value]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
}

/// Whether a record stays as it is when this manager changes these fields: they are its own already, and nobody else's.
fn is_settled(record: &[Value], entry: &Entry, changes: &Changes) -> bool {
    let mut is_known = changes.set.is_empty();
    record.iter().all(|one| {
        let fields = one.get("fieldsV1").unwrap_or(&Value::Null);
        let is_own = Entry::read(one) == *entry;
        is_known |= is_own;
        !changes.removed.touches(fields)
            && if is_own {
                changes.set.is_within(fields)
            } else {
                !changes.set.touches(fields)
            }
    }) && is_known
}

fn manager(call: &Call<'_>) -> String {
    let named = call.request.query.get("fieldManager");
    if !named.is_empty() {
        return named.to_owned();
    }
    let agent = call.request.user_agent.split('/').next().unwrap_or_default();
    if agent.is_empty() {
        "unknown".to_owned()
    } else {
        agent.to_owned()
    }
}
