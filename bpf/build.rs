//! Compiles a program of `bpf/` and makes its structs known to Rust: for the build
//! scripts of the crates that load one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLDEST_CLANG: u32 = 15;

/// `$ACKWISE_CLANG`, or the newest clang on the path that is new enough.
fn clang() -> String {
    let chosen = env::var("ACKWISE_CLANG").ok();
    let candidates = chosen.clone().map_or_else(
        || {
            let mut names = vec!["clang-19".to_owned(), "clang".to_owned()];
            names.extend([22, 21, 20, 18, 17, 16, 15].map(|v| format!("clang-{v}")));
            names
        },
        |c| vec![c],
    );
    let mut seen = Vec::new();
    for name in candidates {
        match version(&name) {
            Some(v) if v >= OLDEST_CLANG => return name,
            Some(v) => seen.push(format!("{name} is version {v}")),
            None => {}
        }
    }
    panic!(
        "\n\nackwise compiles its eBPF programs with clang {OLDEST_CLANG} or newer, and \
         found none{}{}.\nOn Debian or Ubuntu: apt install clang-19 libbpf-dev \
         linux-libc-dev (or set ACKWISE_CLANG to a clang).\n\n",
        chosen.map_or_else(String::new, |c| format!(" (ACKWISE_CLANG={c})")),
        if seen.is_empty() {
            String::new()
        } else {
            format!(": {}", seen.join(", "))
        },
    );
}

fn version(clang: &str) -> Option<u32> {
    let out = Command::new(clang).arg("-dumpversion").output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    text.trim().split('.').next()?.parse().ok()
}

/// Debian keeps `asm/` below a directory named after the architecture, where a
/// clang that targets BPF does not look.
fn multiarch_include() -> Option<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").ok()?;
    let triple = match arch.as_str() {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "powerpc64" => "powerpc64le-linux-gnu".to_owned(),
        a => format!("{a}-linux-gnu"),
    };
    let dir = Path::new("/usr/include").join(triple);
    dir.is_dir().then_some(dir)
}

/// Compiles a program.
pub fn compile(source: &Path, object: &Path) {
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN").unwrap_or_default();
    let mut command = Command::new(clang());
    command
        .args(["-target", if endian == "big" { "bpfeb" } else { "bpfel" }])
        .args(["-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-parameter", "-Wno-sign-compare"])
        // A path in the debug information would make builds differ.
        .arg(format!(
            "-ffile-prefix-map={}=.",
            source
                .parent()
                .and_then(Path::parent)
                .expect("bpf/")
                .display()
        ));
    if let Some(dir) = multiarch_include() {
        command.arg("-I").arg(dir);
    }
    let out = command
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .expect("clang runs: its version was just asked");
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        let hint = if said.contains("file not found") {
            "\nOn Debian or Ubuntu the headers are in: libbpf-dev linux-libc-dev"
        } else {
            ""
        };
        panic!("\n\n{} does not compile:\n{said}{hint}\n", source.display());
    }
}

/// Writes the types and constants of a header that begin with `aw_` or `AW_`.
pub fn bind(header: &Path, to: &Path) {
    let bindings = bindgen::Builder::default()
        .header(header.to_str().expect("a path in UTF-8"))
        .allowlist_type("aw_.*")
        .allowlist_var("AW_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_debug(false)
        .layout_tests(true)
        .generate()
        .expect("a header of bpf/ is plain C");
    bindings.write_to_file(to).expect("OUT_DIR is writable");
}
