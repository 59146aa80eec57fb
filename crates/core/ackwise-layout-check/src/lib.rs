//! Checks that committed bindings fit the C headers that they were generated from. bindgen writes
//! layout assertions into them, which the Rust compiler checks; a build script turns the same
//! assertions into C, and lets the C compiler check the header.

use std::fmt::Write as _;
use std::path::Path;

/// Returns a C file that includes `header` and asserts what the bindings in `rust` say about it. If
/// it compiles, the two languages agree.
///
/// # Panics
///
/// If `rust` has a layout assertion of a form that bindgen does not write.
pub fn c_assertions(header: &Path, rust: &str) -> String {
    let unions: Vec<&str> = rust
        .lines()
        .filter_map(|line| line.strip_prefix("pub union "))
        .filter_map(|line| line.split([' ', '<']).next())
        .collect();
    let tag = |name: &str| {
        let kind = if unions.contains(&name) {
            "union"
        } else {
            "struct"
        };
        format!("{kind} {name}")
    };
    let mut c = format!("#include \"{}\"\n", header.display());
    let mut assert = |what: String| {
        writeln!(c, "_Static_assert({what}, \"stale binding\");").expect("a String");
    };
    // One assertion may span two lines.
    let statements = rust.split(['\n', ';']).collect::<Vec<_>>().join(" ");
    for statement in statements.split("[\"").skip(1) {
        let Some((what, rest)) = statement.split_once("\"]") else {
            continue;
        };
        let number = rest
            .split("usize]")
            .next()
            .and_then(|text| text.rsplit(' ').next());
        let Some(number) = number.and_then(|n| n.parse::<u64>().ok()) else {
            panic!("a layout assertion without a number: {statement}");
        };
        if let Some(name) = what.strip_prefix("Size of ") {
            assert(format!("sizeof({}) == {number}", tag(name)));
        } else if let Some(name) = what.strip_prefix("Alignment of ") {
            assert(format!("_Alignof({}) == {number}", tag(name)));
        } else if let Some(field) = what.strip_prefix("Offset of field: ") {
            let (name, field) = field.split_once("::").expect("Type::field");
            // bindgen appends `_` to Rust keywords.
            let field = field.trim_end_matches('_');
            let offset = format!("__builtin_offsetof({}, {field})", tag(name));
            assert(format!("{offset} == {number}"));
        } else {
            panic!("an unknown layout assertion: {what}");
        }
    }
    for line in rust.lines() {
        let constant = line
            .strip_prefix("pub const ")
            .and_then(|l| l.split_once(':'));
        let value = line.split_once(" = ").map(|(_, v)| v.trim_end_matches(';'));
        if let (Some((name, _)), Some(value)) = (constant, value) {
            assert(format!("{name} == {value}"));
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_alignments_offsets_and_constants_become_assertions() {
        let rust = r#"
pub const AW_R_HELD: aw_reason = 0;
pub union aw_word { pub raw: u64 }
const _: () = {
    ["Size of aw_seg"][::core::mem::size_of::<aw_seg>() - 120usize];
    ["Alignment of aw_word"][
        ::core::mem::align_of::<aw_word>() - 8usize];
    ["Offset of field: aw_seg::type_"][::core::mem::offset_of!(aw_seg, type_) - 4usize];
};"#;
        let c = c_assertions(Path::new("shim.h"), rust);
        for expected in [
            "#include \"shim.h\"",
            "sizeof(struct aw_seg) == 120",
            "_Alignof(union aw_word) == 8",
            "__builtin_offsetof(struct aw_seg, type) == 4",
            "AW_R_HELD == 0",
        ] {
            assert!(c.contains(expected), "{expected} is not in {c}");
        }
    }
}
