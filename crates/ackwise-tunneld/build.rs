//! Compiles the tunnel's program in `bpf/`, and makes its structs known to Rust.

use std::env;
use std::path::PathBuf;

#[path = "../../bpf/build.rs"]
mod bpf;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"))
        .join("../..")
        .canonicalize()
        .expect("the workspace");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    for file in ["tunnel.bpf.c", "tunnel_shared.h", "build.rs"] {
        println!(
            "cargo::rerun-if-changed={}",
            root.join("bpf").join(file).display()
        );
    }
    println!("cargo::rerun-if-env-changed=ACKWISE_CLANG");
    bpf::compile(&root.join("bpf/tunnel.bpf.c"), &out.join("tunnel.bpf.o"));
    bpf::bind(&root.join("bpf/tunnel_shared.h"), &out.join("bindings.rs"));
}
