//! Compiles the gateway's programs in `bpf/`, and makes their structs known to Rust.

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
    for file in [
        "gateway.bpf.c",
        "gateway_shared.h",
        "echo.bpf.c",
        "echo_shared.h",
        "ecn.h",
        "connection.h",
        "rtt.bpf.c",
        "rtt_shared.h",
        "build.rs",
    ] {
        println!(
            "cargo::rerun-if-changed={}",
            root.join("bpf").join(file).display()
        );
    }
    println!("cargo::rerun-if-env-changed=ACKWISE_CLANG");
    bpf::compile(&root.join("bpf/gateway.bpf.c"), &out.join("gateway.bpf.o"));
    bpf::bind(&root.join("bpf/gateway_shared.h"), &out.join("bindings.rs"));
    bpf::compile(&root.join("bpf/echo.bpf.c"), &out.join("echo.bpf.o"));
    bpf::bind(&root.join("bpf/echo_shared.h"), &out.join("echo.rs"));
    bpf::compile(&root.join("bpf/rtt.bpf.c"), &out.join("rtt.bpf.o"));
    bpf::bind(&root.join("bpf/rtt_shared.h"), &out.join("rtt.rs"));
}
