//! The radio scenarios that ship with ackwise load, and contain what they are meant to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ackwise_radio::scenario::RadioScenario;

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|e| e == "toml") {
            into.push(path);
        }
    }
}

#[test]
fn all_load_under_their_own_name_and_say_what_they_show() {
    let mut files = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios"),
        &mut files,
    );
    files.retain(|path| RadioScenario::is_meant(&std::fs::read_to_string(path).unwrap()));
    assert!(files.len() >= 5, "{files:?}");
    for path in files {
        let scenario = RadioScenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(scenario.name.as_ref()), path.file_stem());
        assert!(scenario.about.len() > 20, "{}", path.display());
        ackwise_radio::check(&scenario).unwrap_or_else(|e| panic!("{e}"));
        let runs = scenario.runs();
        let ids: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), runs.len(), "ids are unique");
    }
}
