//! Compiles `bpf/ackwise.bpf.c`, and makes its structs known to Rust.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "../../../bpf/build.rs"]
mod bpf;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../..")
        .canonicalize()
        .expect("the workspace");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    for dir in ["bpf", "policy/include"] {
        println!("cargo::rerun-if-changed={}", root.join(dir).display());
    }
    println!("cargo::rerun-if-env-changed=ACKWISE_CLANG");

    let object = out.join("ackwise.bpf.o");
    bpf::compile(&root.join("bpf/ackwise.bpf.c"), &object);
    bpf::bind(&root.join("bpf/ackwise_shared.h"), &out.join("bindings.rs"));
    name_reasons(
        &root.join("policy/include/ackwise/contract.h"),
        &out.join("reasons.rs"),
    );
}

/// The names of `enum aw_reason`, from the list that defines it.
fn name_reasons(header: &Path, to: &Path) {
    let text = fs::read_to_string(header).expect("contract.h");
    let names: Vec<&str> = text
        .lines()
        .filter_map(|l| l.trim().strip_prefix("AW_REASON("))
        .filter_map(|l| l.split('"').nth(1))
        .collect();
    let code = format!(
        "pub(crate) const REASONS: [&str; {}] = {names:?};\n",
        names.len()
    );
    fs::write(to, code).expect("OUT_DIR is writable");
}
