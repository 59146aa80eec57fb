//! `ackwise analyze`: what the ACKs in captures cost, and what policies would have withheld.

mod csv;
mod page;
mod table;

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use ackwise_analyze::{Analysis, Analyzer, CaptureError, Options, read};
use ackwise_cli::error::BadInput;
use ackwise_cli::outputs::{self, Results};
use ackwise_cli::{Format, policy, text};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::analyze::AnalyzeArgs;

/// The name that stands for standard input among the files.
const STDIN: &str = "-";

/// What was found in one file.
#[derive(Serialize)]
pub struct Finding {
    /// The name of the file; `-` is standard input.
    pub file: String,
    /// The offset in the unpacked data up to which a truncated capture has whole packets.
    pub cut_at: Option<u64>,
    #[serde(flatten)]
    pub analysis: Analysis,
}

#[derive(Serialize)]
struct Findings<'a> {
    files: &'a [Finding],
}

/// Analyses each file, and prints the findings.
pub fn analyze(args: &AnalyzeArgs, format: Format) -> anyhow::Result<()> {
    check_files(args)?;
    let options = options(args)?;
    let findings = args
        .files
        .iter()
        .map(|file| one(file, &options))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut results = Results::default();
    results.take(match format {
        Format::Json => text::print_json(&Findings { files: &findings }),
        Format::Text => {
            let pages: Vec<_> = findings.iter().map(table::text).collect();
            text::print(&pages.join("\n"))
        }
    });
    if let Some(path) = &args.html {
        results.write(path, page::page(&findings));
    }
    if let Some(path) = &args.csv {
        results.write(path, csv::flows(&findings));
    }
    results.end()
}

/// Refuses combinations of files that cannot be read or written together, before any is opened.
fn check_files(args: &AnalyzeArgs) -> Result<(), BadInput> {
    let (stdin, inputs): (Vec<_>, Vec<_>) = args
        .files
        .iter()
        .map(PathBuf::as_path)
        .partition(|file| *file == Path::new(STDIN));
    if stdin.len() > 1 {
        return Err(BadInput::new("-: standard input is named twice").hint("name it once"));
    }
    let written = args.html.iter().chain(&args.csv);
    outputs::check(written.map(PathBuf::as_path), inputs)
}

fn options(args: &AnalyzeArgs) -> Result<Options, BadInput> {
    let mut options = Options {
        up_bps: args.up,
        down_bps: args.down,
        wifi_bps: args.wifi,
        ..Options::default()
    };
    if !args.policies.is_empty() {
        let all = args.policies.iter().map(|p| policy::configure(p, &[]));
        options.policies = all.collect::<Result<_, _>>()?;
    }
    Ok(options)
}

fn one(path: &Path, options: &Options) -> anyhow::Result<Finding> {
    let name = path.display().to_string();
    let (source, progress) = open(path, &name)?;
    let mut analyzer = Analyzer::new(options.clone());
    let end = read(progress.wrap_read(source), &mut |packet| {
        analyzer.packet(packet)
    });
    progress.finish_and_clear();
    let end = end.map_err(|error| refused(&name, error))?;
    let analysis = analyzer.finish();
    if let Some(link) = analysis.only_unsupported() {
        let supported = ackwise_analyze::LinkType::SUPPORTED;
        return Err(
            BadInput::new(format!("{name}: frames of link type {link} are not read"))
                .hint(format!("capture one of these: {supported}"))
                .into(),
        );
    }
    Ok(Finding {
        file: name,
        cut_at: end.cut_at,
        analysis,
    })
}

fn open(path: &Path, name: &str) -> anyhow::Result<(Box<dyn Read + Send>, ProgressBar)> {
    if name == STDIN {
        if io::stdin().is_terminal() {
            return Err(BadInput::new("-: standard input is a terminal")
                .hint("tcpdump -i IFACE -s 128 -w - tcp | ackwise analyze -")
                .into());
        }
        return Ok((Box::new(io::stdin()), ProgressBar::hidden()));
    }
    let file = File::open(path).map_err(|e| BadInput::new(format!("{name}: {e}")))?;
    let meta = file
        .metadata()
        .map_err(|e| BadInput::new(format!("{name}: {e}")))?;
    if meta.is_dir() {
        return Err(BadInput::new(format!("{name}: it is a directory"))
            .hint("name the capture files in it")
            .into());
    }
    let bar = "{msg} {wide_bar} {bytes}/{total_bytes} {eta}";
    let style = ProgressStyle::with_template(bar).expect("a constant template");
    let progress = ProgressBar::new(meta.len()).with_style(style);
    progress.set_message(name.to_owned());
    Ok((Box::new(file), progress))
}

fn refused(name: &str, error: CaptureError) -> BadInput {
    let bad = BadInput::new(format!("{name}: {error}"));
    match error.advice() {
        Some(advice) => bad.hint(advice),
        None => bad,
    }
}
