//! Signatures of functions: no parameter is a tuple, whose parts have no names. Not for their
//! length, nor for tests, which pass on responses.

use std::path::Path;

use syn::visit::{self, Visit};
use syn::{FnArg, ItemMod, Pat, Signature, Type};

use super::cycles::is_test;
use super::tidy::{complain, files};

/// Collects the parameters that are tuples.
#[derive(Default)]
struct Tuples(Vec<String>);

fn is_tuple(kind: &Type) -> bool {
    match kind {
        Type::Reference(reference) => is_tuple(&reference.elem),
        Type::Paren(inner) => is_tuple(&inner.elem),
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Tuples {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        for parameter in &signature.inputs {
            let FnArg::Typed(typed) = parameter else { continue };
            if is_tuple(&typed.ty) {
                let name = match &*typed.pat {
                    Pat::Ident(name) => name.ident.to_string(),
                    _ => "a pattern".to_owned(),
                };
                self.0.push(format!("{}: {name}", signature.ident));
            }
        }
    }
}

fn tuples_of(text: &str) -> Vec<String> {
    let mut found = Tuples::default();
    found.visit_file(&syn::parse_file(text).expect("Rust"));
    found.0
}

/// Reports whether a bracket follows the name of something, as rustfmt writes it. Parsing takes
/// seconds for all sources, and most have no such place.
fn may_have_tuples(text: &str) -> bool {
    text.split(": ").skip(1).any(|kind| {
        let kind = kind.trim_start_matches('&');
        let kind = match kind.strip_prefix('\'').and_then(|lifetime| lifetime.split_once(' ')) {
            Some((_, kind)) => kind,
            None => kind,
        };
        kind.strip_prefix("mut ").unwrap_or(kind).starts_with('(')
    })
}

fn is_for_tests(path: &Path) -> bool {
    path.starts_with("crates/test-support")
        || path.iter().any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn no_parameter_is_a_tuple() {
    assert_eq!(tuples_of("impl A { fn a(&self, b: &(u8, u8)) {} }"), ["a: b"]);
    assert_eq!(tuples_of("fn a((b, c): (u8, u8), d: (), e: Vec<(u8, u8)>) {}"), ["a: a pattern"]);
    assert!(tuples_of("#[cfg(test)] mod tests { fn a(b: (u8, u8)) {} }").is_empty());
    for kind in
        ["(u8, u8)", "&(u8, u8)", "&&(u8, u8)", "&mut (u8, u8)", "&'a (u8, u8)", "&'a mut (u8, u8)"]
    {
        let text = format!("fn a<'a>(b: {kind}) {{}}");
        assert!(may_have_tuples(&text) && !tuples_of(&text).is_empty(), "{text}");
    }
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        if !is_for_tests(&path) && may_have_tuples(&text) {
            let found = tuples_of(&text).into_iter();
            faults.extend(found.map(|tuple| format!("{}: {tuple}", path.display())));
        }
    }
    complain(faults);
}
