//! Generates manual pages from clap's arguments.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Writes a page into `directory` for the command and one for each visible subcommand: `ackwise.8`,
/// `ackwise-gateway.8`, `ackwise-gateway-up.8`. The directory is created if it is missing; existing
/// pages are replaced.
///
/// # Errors
///
/// If the directory cannot be created, or a page cannot be written.
pub fn write(command: Command, section: &str, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    // The pages cover everything that clap's own subcommand `help` says.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(command, section, directory)
}

fn pages(command: Command, section: &str, directory: &Path) -> anyhow::Result<()> {
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        pages(inner.clone(), section, directory)?;
    }
    let notes = command.get_after_help().map(ToString::to_string);
    let source = format!("ackwise {}", command.get_version().unwrap_or_default());
    let page = Man::new(command.after_help(None))
        .section(section)
        .source(source)
        .manual("ackwise");
    let path = directory.join(page.get_filename());
    render(&page, notes.as_deref(), &path)
        .with_context(|| format!("cannot write {}", path.display()))
}

fn render(page: &Man, notes: Option<&str>, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    page.render(&mut file)?;
    if let Some(notes) = notes {
        verbatim(notes).to_writer(&mut file)?;
    }
    file.flush()
}

/// The text below the options, printed verbatim: examples and tables.
fn verbatim(text: &str) -> Roff {
    let (heading, body) = match text.strip_prefix("Examples:\n") {
        Some(examples) => ("EXAMPLES", examples),
        None => ("NOTES", text),
    };
    let mut roff = Roff::new();
    roff.control("SH", [heading]).control("nf", []);
    for line in body.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    use super::verbatim;

    #[test]
    fn examples_keep_their_lines_and_their_indentation() {
        let text = verbatim("Examples:\n  ackwise up eth0     now\n  .ackwise -x\n").render();
        let section = text
            .split_once(".SH EXAMPLES\n.nf\n")
            .expect("its heading")
            .1;
        assert!(section.starts_with("  ackwise up eth0     now\n"), "{text}");
        assert!(section.contains("  .ackwise \\-x\n"), "{text}");
        assert!(section.trim_end().ends_with(".fi"), "{text}");
    }

    #[test]
    fn other_text_becomes_notes() {
        assert!(verbatim("It counts.").render().contains(".SH NOTES\n"));
    }
}
