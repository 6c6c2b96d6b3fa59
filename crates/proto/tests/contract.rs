//! The contract only grows: what `proto/contract.txt` lists is what releases speak, and stays as it is.

#![allow(clippy::panic, reason = "nothing here runs outside of tests")]

use std::collections::BTreeSet;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, ServiceDescriptorProto};

const CONTRACT: &str = include_str!("../../../proto/contract.txt");

/// Every method, field and value there is, a line each.
fn present() -> BTreeSet<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let files = protox::compile(["bailiff/v1/event_bus.proto"], [root]).expect("it compiles");
    let ours = files.file.iter().filter(|file| file.package() == "bailiff.v1");
    let mut lines = BTreeSet::new();
    for file in ours {
        let package = file.package();
        file.message_type
            .iter()
            .for_each(|message| add_message(package, message, &mut lines));
        file.enum_type.iter().for_each(|values| add_enum(package, values, &mut lines));
        file.service
            .iter()
            .for_each(|service| add_service(package, service, &mut lines));
    }
    lines
}

fn add_message(scope: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{scope}.{}", message.name());
    for field in &message.field {
        let oneof = field
            .oneof_index
            .and_then(|index| message.oneof_decl.get(usize::try_from(index).ok()?));
        let within = oneof.map_or_else(String::new, |oneof| format!(" in {}", oneof.name()));
        lines.insert(format!(
            "{name}.{} = {} {}{within}",
            field.name(),
            field.number(),
            kind(field)
        ));
    }
    message
        .nested_type
        .iter()
        .for_each(|nested| add_message(&name, nested, lines));
    message.enum_type.iter().for_each(|values| add_enum(&name, values, lines));
}

fn kind(field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        plain => plain.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    match field.label() {
        Label::Repeated => format!("repeated {kind}"),
        Label::Optional | Label::Required => kind,
    }
}

fn add_enum(scope: &str, values: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    let of_enum = values.value.iter();
    lines.extend(of_enum.map(|value| format!("{scope}.{}.{} = {}", values.name(), value.name(), value.number())));
}

fn add_service(scope: &str, service: &ServiceDescriptorProto, lines: &mut BTreeSet<String>) {
    for method in &service.method {
        let stream = |is: bool| if is { "stream " } else { "" };
        let (input, output) = (
            method.input_type().trim_start_matches('.'),
            method.output_type().trim_start_matches('.'),
        );
        let (asks, answers) = (stream(method.client_streaming()), stream(method.server_streaming()));
        lines.insert(format!(
            "{scope}.{}.{}: {asks}{input} -> {answers}{output}",
            service.name(),
            method.name()
        ));
    }
}

#[test]
fn what_was_released_is_never_taken_away_or_changed() {
    let (present, released): (_, BTreeSet<String>) = (present(), CONTRACT.lines().map(str::to_owned).collect());
    assert!(present.len() > 100, "only {} lines", present.len());
    let gone: Vec<_> = released.difference(&present).collect();
    assert!(
        gone.is_empty(),
        "other releases speak these, so they must stay as they are: {gone:#?}"
    );
    let new: Vec<_> = present.difference(&released).cloned().collect();
    assert!(
        new.is_empty(),
        "add these to proto/contract.txt, and mind what a reader without them does:\n{}",
        new.join("\n")
    );
}
