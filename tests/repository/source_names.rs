//! Names of tool sources: each source of this server takes its name from one list, which the check
//! of configured servers reads, too. Not for the names of tools.

use std::collections::BTreeSet;

use super::bounds::folders;
use super::root;
use super::tidy::{complain, product_sources};

/// The file with the list.
const LIST: &str = "crates/ports/src/source_names.rs";

/// Names of the constants in the list.
fn listed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(LIST)).unwrap();
    let constant = |line: &str| {
        let (name, value) = line.trim().split_once(" = \"")?;
        value.ends_with("\";").then(|| name.to_owned())
    };
    text.lines().filter_map(constant).collect()
}

#[test]
fn every_source_of_this_server_takes_its_name_from_the_list() {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in product_sources(&folders()) {
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        for source in product.split("ToolSource for ").skip(1) {
            let body = source.split("fn name(&self) -> &str {").nth(1).unwrap_or_default();
            let name = body.split('}').next().unwrap_or_default().trim();
            // Given by the configuration or by the tool client; both are checked against the list.
            if name.starts_with("&self.") {
                continue;
            }
            match name.strip_prefix("source_names::") {
                Some(name) => {
                    used.insert(name.to_owned());
                }
                None => faults.push(format!("{file}: `{name}` is not a name of {LIST}")),
            }
        }
    }
    complain(faults);
    assert_eq!(used, listed(), "each name of the list has a source");
}
