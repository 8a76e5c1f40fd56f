//! The 25 acceptance checks of the device wire. Each is a test named after its number, `check_01_`
//! to `check_25_`, next to the code that it is about. This test only checks that none is missing.

use super::root;

#[test]
fn every_acceptance_check_has_a_test() {
    let mut found = String::new();
    let mut folders =
        ["tests", "actors/tests", "crates"].map(|folder| root().join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|x| x == "rs") {
                found += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let missing: Vec<u32> =
        (1..=25).filter(|n| !found.contains(&format!("fn check_{n:02}_"))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
