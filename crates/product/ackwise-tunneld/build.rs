//! Compiles the tunnel's programs in `bpf/`, and makes their structs known to Rust.

use std::env;
use std::path::PathBuf;

#[path = "../../../bpf/build.rs"]
mod bpf;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../../..")
        .canonicalize()
        .expect("the workspace");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let changed = |file: &str| {
        println!(
            "cargo::rerun-if-changed={}",
            root.join("bpf").join(file).display()
        )
    };
    changed("build.rs");
    println!("cargo::rerun-if-env-changed=ACKWISE_CLANG");
    for name in ["tunnel", "inject"] {
        let (program, header) = (format!("{name}.bpf.c"), format!("{name}_shared.h"));
        changed(&program);
        changed(&header);
        let object = out.join(format!("{name}.bpf.o"));
        bpf::compile(&root.join("bpf").join(program), &object);
        let bindings = out.join(format!("{name}.rs"));
        bpf::bind(&root.join("bpf").join(header), &bindings);
    }
}
