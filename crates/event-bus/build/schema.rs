//! What the stored messages are, as one number: another one whenever anything that is stored changes its form.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};

/// A digest of these messages and of all that is in them. Names of files, comments and services are not.
pub fn digest(files: &FileDescriptorSet, roots: &[&str]) -> u64 {
    let (mut messages, mut enums) = (BTreeMap::new(), BTreeMap::new());
    for file in &files.file {
        let scope = format!(".{}", file.package());
        collect(&scope, &file.message_type, &file.enum_type, &mut messages, &mut enums);
    }
    let mut reached = BTreeSet::new();
    let mut next: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
    let mut forms = BTreeMap::new();
    while let Some(name) = next.pop() {
        if !reached.insert(name.clone()) {
            continue;
        }
        if let Some(message) = messages.get(&name) {
            next.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
            forms.insert(name, message.encode_to_vec());
        } else if let Some(values) = enums.get(&name) {
            forms.insert(name, values.encode_to_vec());
        } else {
            // A root or a type that is not among the files: nothing must be built on that.
            return 0;
        }
    }
    let bytes = forms
        .iter()
        .flat_map(|(name, form)| name.bytes().chain([0]).chain(form.iter().copied()));
    // FNV-1a: it only has to tell accidents apart.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn collect<'a>(
    scope: &str,
    found: &'a [DescriptorProto],
    found_enums: &'a [EnumDescriptorProto],
    messages: &mut BTreeMap<String, &'a DescriptorProto>,
    enums: &mut BTreeMap<String, &'a EnumDescriptorProto>,
) {
    for values in found_enums {
        enums.insert(format!("{scope}.{}", values.name()), values);
    }
    for message in found {
        let name = format!("{scope}.{}", message.name());
        collect(&name, &message.nested_type, &message.enum_type, messages, enums);
        messages.insert(name, message);
    }
}
