//! Compiles the programs of `bpf/` with clang, and fails the build if the committed bindings do not
//! match their headers. It does not need libclang.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// An object, and the header whose bindings are at the same place in `src/bindings`.
struct Object {
    /// `bpf/<source>.bpf.c` and `bpf/<source>_shared.h`.
    source: &'static str,
    /// `src/bindings/<bindings>.rs`.
    bindings: &'static str,
}

const OBJECTS: [Object; 9] = [
    Object {
        source: "ackwise",
        bindings: "datapath",
    },
    Object {
        source: "gateway",
        bindings: "gateway",
    },
    Object {
        source: "echo",
        bindings: "echo",
    },
    Object {
        source: "delay",
        bindings: "delay",
    },
    Object {
        source: "tunnel",
        bindings: "tunnel",
    },
    Object {
        source: "inject",
        bindings: "inject",
    },
    Object {
        source: "silence",
        bindings: "silence",
    },
    Object {
        source: "ack_rate",
        bindings: "ack_rate",
    },
    Object {
        source: SELFTEST,
        bindings: "selftest",
    },
];

/// The object that is compiled only with the feature of this name.
const SELFTEST: &str = "selftest";

const MIN_CLANG: u32 = 15;
/// Versions to look for by name, in order of preference.
const CLANG_VERSIONS: [u32; 8] = [19, 22, 21, 20, 18, 17, 16, 15];

fn main() {
    let crate_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let root = crate_dir
        .join("../../..")
        .canonicalize()
        .expect("the workspace");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    for dir in [
        root.join("bpf"),
        root.join("policy/include"),
        root.join("policy/options"),
        crate_dir.join("src/bindings"),
    ] {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    println!("cargo::rerun-if-env-changed=ACKWISE_CLANG");

    let clang = find_clang();
    let with_selftest = env::var_os("CARGO_FEATURE_SELFTEST").is_some();
    for object in &OBJECTS {
        if object.source == SELFTEST && !with_selftest {
            continue;
        }
        let bindings = crate_dir
            .join("src/bindings")
            .join(object.bindings)
            .with_extension("rs");
        let layout = out.join(format!("{}_layout.c", object.source));
        let header = root.join(format!("bpf/{}_shared.h", object.source));
        let rust = fs::read_to_string(&bindings).expect("the bindings are committed");
        let assertions = ackwise_layout_check::c_assertions(&header, &rust);
        fs::write(&layout, assertions).expect("OUT_DIR is writable");
        let checked = run_clang(&clang, &root, &layout, &["-fsyntax-only"]);
        assert!(
            checked.is_ok(),
            "\n\n{} does not fit {}: run scripts/bindings and commit what it writes.\n{}\n",
            bindings.display(),
            header.display(),
            checked.unwrap_err(),
        );
        compile(&clang, &root, &out, object.source);
    }
}

/// `$ACKWISE_CLANG`, or the first clang in the path that is recent enough.
fn find_clang() -> String {
    let chosen = env::var("ACKWISE_CLANG").ok();
    let candidates = chosen.clone().map_or_else(
        || {
            let mut names = CLANG_VERSIONS.map(|v| format!("clang-{v}")).to_vec();
            names.insert(1, "clang".to_owned());
            names
        },
        |c| vec![c],
    );
    let mut too_old = Vec::new();
    for name in candidates {
        match clang_version(&name) {
            Some(v) if v >= MIN_CLANG => return name,
            Some(v) => too_old.push(format!("{name} is version {v}")),
            None => {}
        }
    }
    panic!(
        "\n\nackwise compiles its eBPF programs with clang {MIN_CLANG} or newer, and \
         found none{}{}.\nOn Debian or Ubuntu: apt install clang-19 libbpf-dev \
         linux-libc-dev (or set ACKWISE_CLANG to a clang).\n\n",
        chosen.map_or_else(String::new, |c| format!(" (ACKWISE_CLANG={c})")),
        if too_old.is_empty() {
            String::new()
        } else {
            format!(": {}", too_old.join(", "))
        },
    );
}

fn clang_version(clang: &str) -> Option<u32> {
    let out = Command::new(clang).arg("-dumpversion").output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    text.trim().split('.').next()?.parse().ok()
}

/// Debian keeps `asm/` below a directory named after the architecture, where a clang that targets
/// BPF does not look. If the byte order is the same, which is all that BPF programs take from these
/// headers, the compiling machine's are used: the object must not depend on whether another
/// architecture's are installed.
fn asm_include() -> Option<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").ok()?;
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN").ok()?;
    let own_endian = if cfg!(target_endian = "big") {
        "big"
    } else {
        "little"
    };
    let own = multiarch_include(env::consts::ARCH).filter(|_| endian == own_endian);
    own.or_else(|| multiarch_include(&arch))
}

/// The directory with the `asm/` of an architecture, if it is installed.
fn multiarch_include(arch: &str) -> Option<PathBuf> {
    let triple = match arch {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "powerpc64" => "powerpc64le-linux-gnu".to_owned(),
        a => format!("{a}-linux-gnu"),
    };
    let native = Path::new("/usr/include").join(&triple);
    // Headers of another architecture, for a cross compiler.
    let cross = Path::new("/usr").join(triple).join("include");
    [native, cross]
        .into_iter()
        .find(|dir| dir.join("asm/types.h").is_file())
}

/// Runs clang for the BPF target on one source. The error is clang's output.
fn run_clang(clang: &str, root: &Path, source: &Path, more: &[&str]) -> Result<(), String> {
    let endian = env::var("CARGO_CFG_TARGET_ENDIAN").unwrap_or_default();
    let mut command = Command::new(clang);
    command
        .args(["-target", if endian == "big" { "bpfeb" } else { "bpfel" }])
        .args(["-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-parameter", "-Wno-sign-compare"])
        // A path in the debug information would make builds differ.
        .arg(format!("-ffile-prefix-map={}=.", root.display()));
    if let Some(dir) = asm_include() {
        command.arg("-I").arg(dir);
    }
    if endian == "big" && env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "mips") {
        // MIPS headers serve both byte orders, and its compilers define which.
        command.arg("-D__MIPSEB__");
    }
    let out = command
        .args(more)
        .arg(source)
        .output()
        .expect("clang runs: its version was just asked");
    if out.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Compiles `bpf/<name>.bpf.c` into `OUT_DIR/<name>.bpf.o`.
fn compile(clang: &str, root: &Path, out: &Path, name: &str) {
    let source = root.join(format!("bpf/{name}.bpf.c"));
    let object = out.join(format!("{name}.bpf.o"));
    let object = object.to_str().expect("OUT_DIR is UTF-8");
    if let Err(message) = run_clang(clang, root, &source, &["-c", "-o", object]) {
        let hint = if message.contains("file not found") {
            "\nOn Debian or Ubuntu the headers are in: libbpf-dev linux-libc-dev"
        } else {
            ""
        };
        panic!(
            "\n\n{} does not compile:\n{message}{hint}\n",
            source.display()
        );
    }
}
