//! Imports between the files of a crate: no files import each other in a circle. Not for
//! dependencies between crates, which the compiler keeps acyclic.
//!
//! A file may use what a parent module of it defines: it is a part of that module. A name that a
//! module re-exports stands for the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use syn::visit::Visit;
use syn::{Attribute, File, Item, ItemUse, UseTree, Visibility};

use super::tidy::{complain, files};

/// Place of a module in its crate.
type Module = Vec<String>;

/// Paths that the files of a crate name, and its re-exports.
struct Crate {
    /// File of each module.
    files: BTreeMap<Module, String>,
    named: BTreeMap<Module, Vec<Module>>,
    /// Re-exported names of each module, with their paths.
    shown: BTreeMap<Module, BTreeMap<String, Module>>,
}

/// Collects the paths of one file, without its tests.
#[derive(Default)]
struct Paths {
    named: Vec<Module>,
    shown: BTreeMap<String, Module>,
}

pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

/// Lists the paths of a tree of imports, with the name of each.
fn imports(tree: &UseTree, before: &Module, found: &mut Vec<(String, Module)>) {
    let with = |name: &str| [before.clone(), vec![name.to_owned()]].concat();
    match tree {
        UseTree::Path(path) => imports(&path.tree, &with(&path.ident.to_string()), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.extend(before.last().map(|last| (last.clone(), before.clone())));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident.to_string()))),
        UseTree::Rename(name) => {
            found.push((name.rename.to_string(), with(&name.ident.to_string())))
        }
        UseTree::Glob(_) => found.push(("*".to_owned(), before.clone())),
        UseTree::Group(group) => group.items.iter().for_each(|item| imports(item, before, found)),
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        imports(&item.tree, &Vec::new(), &mut found);
        if matches!(item.vis, Visibility::Inherited) {
            self.named.extend(found.into_iter().map(|(_, path)| path));
        } else {
            self.shown.extend(found);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.named.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

impl Crate {
    /// Reads the files in a folder of sources.
    fn read(folder: &str, files: &[(String, String)]) -> Self {
        let mut read =
            Self { files: BTreeMap::new(), named: BTreeMap::new(), shown: BTreeMap::new() };
        for (file, text) in files {
            let inner = file.strip_prefix(folder).unwrap().trim_start_matches('/');
            let parts = inner.trim_end_matches(".rs").split('/').map(str::to_owned);
            let mut module: Module = parts.collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                module.pop();
            }
            let parsed: File = syn::parse_file(text).unwrap_or_else(|why| panic!("{file}: {why}"));
            let mut paths = Paths::default();
            paths.visit_file(&parsed);
            // A program beside a library shares its root.
            read.named.entry(module.clone()).or_default().extend(paths.named);
            read.shown.entry(module.clone()).or_default().extend(paths.shown);
            read.files.entry(module).or_insert_with(|| file.clone());
        }
        read
    }

    /// Returns the module in which the item of a path is defined, as `module` names it.
    fn module_of(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        let mut at = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first if self.files.contains_key(&child(module, first)) => {}
            _ => return None,
        }
        while let Some(next) = rest.first().map(|name| child(&at, name)) {
            if !self.files.contains_key(&next) {
                break;
            }
            at = next;
            rest = &rest[1..];
        }
        let shown = rest.first().and_then(|name| self.shown.get(&at)?.get(name));
        let defined = shown.filter(|_| depth < 8).and_then(|p| self.module_of(&at, p, depth + 1));
        Some(defined.unwrap_or(at))
    }

    /// Returns the modules that each module uses, without parents.
    fn uses<'a>(&'a self) -> BTreeMap<&'a Module, BTreeSet<Module>> {
        let used = |(module, paths): (&'a Module, &Vec<Module>)| {
            let named = paths.iter().filter_map(|path| self.module_of(module, path, 0));
            (module, named.filter(|used| !module.starts_with(used)).collect())
        };
        self.named.iter().map(used).collect()
    }
}

fn child(module: &Module, name: &str) -> Module {
    [module.as_slice(), &[name.to_owned()]].concat()
}

/// Removes modules that use no other one of the rest, or that no other one uses, until only those
/// on circles and between circles are left.
fn circles(mut uses: BTreeMap<&Module, BTreeSet<Module>>) -> BTreeMap<&Module, BTreeSet<Module>> {
    loop {
        let before = uses.len();
        let left: BTreeSet<Module> = uses.keys().map(|module| (*module).clone()).collect();
        for used in uses.values_mut() {
            used.retain(|module| left.contains(module));
        }
        uses.retain(|_, used| !used.is_empty());
        let used: BTreeSet<Module> = uses.values().flatten().cloned().collect();
        uses.retain(|module, _| used.contains(*module));
        if uses.len() == before {
            return uses;
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut of_crate: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, text) in files(&["rs"]) {
        let name = path.to_string_lossy().trim_start_matches("./").to_owned();
        let is_test = name.split('/').any(|part| part == "tests") || name.ends_with("/tests.rs");
        let Some((folder, _)) = name.split_once("src/").filter(|_| !is_test) else { continue };
        of_crate.entry(format!("{folder}src")).or_default().push((name, text));
    }
    assert!(of_crate.len() > 20, "{:?}", of_crate.keys());
    let mut found = Vec::new();
    for (folder, files) in &of_crate {
        let read = Crate::read(folder, files);
        for (module, used) in circles(read.uses()) {
            let mut line = format!("{} is in a circle of imports: it uses", read.files[module]);
            for used in used {
                write!(line, " {}", read.files[&used]).unwrap();
            }
            found.push(line);
        }
    }
    // What both files need belongs into a file of its own.
    complain(found);
}

#[test]
fn a_circle_is_found_and_a_parent_is_none() {
    let found = |b: &str| {
        let lib = "mod a; mod b; mod c; use a::A; struct Own;";
        let a = "mod child; pub use child::Deep; use crate::b::B; struct A; use crate::Own;";
        let child = "use super::A; struct Deep;";
        let files = [("lib", lib), ("a", a), ("b", b), ("c", ""), ("a/child", child)];
        let files = files.map(|(name, text)| (format!("src/{name}.rs"), text.to_owned()));
        circles(Crate::read("src", &files).uses()).len()
    };
    assert_eq!(found("use crate::c;"), 0);
    assert_eq!(found("fn f() -> crate::a::A { f() }"), 2);
    assert_eq!(found("use super::{a::{A, Other as C}};"), 2);
    // A re-exported name stands for the file that defines it, which uses nothing here.
    assert_eq!(found("use crate::a::Deep;"), 0);
    assert_eq!(found("#[cfg(test)] mod tests { use crate::a::A; }"), 0);
}
