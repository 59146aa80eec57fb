//! What `ackwise` is built from, according to `cargo tree`. `scripts/lint-supply` asks cargo-deny
//! the same for the whole workspace, and about licences and advisories; it is not a test because it
//! needs the network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn text_of(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The versions of each crate that is part of `ackwise` or of its build.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "ackwise"])
        .args(["--edges", "normal,build", "--prefix", "none"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split(' ');
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            let versions = crates.entry(name.to_owned()).or_default();
            versions.insert(version.trim_start_matches('v').to_owned());
        }
    }
    assert!(crates.contains_key("ackwise-policy"), "{crates:?}");
    crates
}

/// Bindings are committed, so that a build does not need libclang.
#[test]
fn l14_no_build_needs_libclang() {
    let crates = crates();
    for name in ["bindgen", "clang-sys", "libloading"] {
        assert!(!crates.contains_key(name), "{name} is needed to build");
    }
}

/// Two versions of a crate need an exception in `deny.toml`, which gives the reason.
#[test]
fn l14_what_is_built_twice_has_a_reason() {
    let rules = text_of("deny.toml");
    for (name, versions) in crates() {
        let excused = |version: &&String| {
            let major = version.split('.').next().unwrap_or_default();
            let rule = format!("{{ crate = \"{name}@{major}\", reason = \"");
            rules.contains(&rule)
        };
        let rest = versions.iter().filter(|version| !excused(version)).count();
        assert!(rest <= 1, "{name} is built in the versions {versions:?}");
    }
}

/// Each crate has a checksum from crates.io, or belongs to this workspace.
#[test]
fn l14_each_crate_comes_from_one_registry() {
    let lock = text_of("Cargo.lock");
    let mut from_elsewhere = 0;
    for package in lock.split("[[package]]").skip(1) {
        let name = package.lines().find(|line| line.starts_with("name = "));
        let name = name.unwrap_or(package);
        let Some(source) = package.lines().find(|line| line.starts_with("source = ")) else {
            assert!(name.contains("ackwise"), "{name} has no source");
            continue;
        };
        assert_eq!(
            source, "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
            "{name}"
        );
        assert!(package.contains("\nchecksum = \""), "{name}");
        from_elsewhere += 1;
    }
    assert!(from_elsewhere > 50, "{from_elsewhere}");
}

/// What no test checks is checked by `make lint`.
#[test]
fn l14_make_lint_asks_cargo_deny() {
    let makefile = text_of("Makefile");
    let lint = makefile.split("\nlint:").nth(1).expect("a target lint");
    let lint = lint.split("\n\n").next().unwrap_or(lint);
    assert!(lint.contains("scripts/lint-supply"), "{lint}");
    let script = text_of("scripts/lint-supply");
    for what in ["licenses", "bans", "sources", "advisories"] {
        assert!(script.contains(what), "lint-supply does not check {what}");
    }
}
