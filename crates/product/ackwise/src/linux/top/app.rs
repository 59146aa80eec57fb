//! What the screen shows, and how keys change it.

use ackwise_cli::error::in_line;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::measures::Histories;
use super::snapshot::{Id, Snapshot, Source};

/// The column by which flows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortBy {
    Acks,
    Saved,
    Data,
    Rtt,
    Idle,
}

impl SortBy {
    const ALL: [Self; 5] = [Self::Acks, Self::Saved, Self::Data, Self::Rtt, Self::Idle];

    fn step(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        let all = Self::ALL.len() as isize;
        Self::ALL[(at as isize + by).rem_euclid(all) as usize]
    }
}

/// Whether the program continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    GoOn,
    End,
}

/// What is collected while the display is paused.
#[derive(Clone)]
struct Paused {
    snapshot: Snapshot,
    histories: Histories,
    trouble: Option<String>,
}

/// The state of the screen.
pub struct App {
    pub snapshot: Snapshot,
    pub histories: Histories,
    selected: Option<Id>,
    pub sort: SortBy,
    /// Whether flows are sorted in ascending order.
    pub ascending: bool,
    /// Collects snapshots while the display is paused, so that the histories have no gap
    /// afterwards.
    behind: Option<Box<Paused>>,
    pub help: bool,
    /// Whether colours may be used.
    pub color: bool,
    /// Why the last attempt to read counters failed.
    pub trouble: Option<String>,
}

impl App {
    pub fn new(first: Snapshot, color: bool) -> Self {
        let selected = first.sources.first().map(|source| source.id.clone());
        Self {
            snapshot: first,
            histories: Histories::default(),
            selected,
            sort: SortBy::Acks,
            ascending: false,
            behind: None,
            help: false,
            color,
            trouble: None,
        }
    }

    /// Takes a new snapshot. It is not shown while the display is paused.
    pub fn update(&mut self, read: anyhow::Result<Snapshot>) {
        let (snapshot, histories, trouble) = match &mut self.behind {
            Some(behind) => (
                &mut behind.snapshot,
                &mut behind.histories,
                &mut behind.trouble,
            ),
            None => (&mut self.snapshot, &mut self.histories, &mut self.trouble),
        };
        match read {
            Ok(now) => {
                histories.add(snapshot, &now);
                *snapshot = now;
                *trouble = None;
            }
            Err(error) => *trouble = Some(in_line(&error)),
        }
    }

    /// Whether the display is paused.
    pub fn paused(&self) -> bool {
        self.behind.is_some()
    }

    /// Pauses the display, or shows what was collected meanwhile.
    fn pause(&mut self) {
        match self.behind.take() {
            Some(behind) => {
                self.snapshot = behind.snapshot;
                self.histories = behind.histories;
                self.trouble = behind.trouble;
            }
            None => {
                self.behind = Some(Box::new(Paused {
                    snapshot: self.snapshot.clone(),
                    histories: self.histories.clone(),
                    trouble: self.trouble.clone(),
                }));
            }
        }
    }

    /// The index of the source whose details are shown: the first if the selected one has ended.
    pub fn selected(&self) -> Option<usize> {
        let sources = &self.snapshot.sources;
        let at = sources
            .iter()
            .position(|source| Some(&source.id) == self.selected.as_ref());
        at.or((!sources.is_empty()).then_some(0))
    }

    pub fn selected_source(&self) -> Option<&Source> {
        self.selected().map(|at| &self.snapshot.sources[at])
    }

    fn select(&mut self, by: isize) {
        let Some(at) = self.selected() else {
            return;
        };
        let last = self.snapshot.sources.len() - 1;
        let at = at.saturating_add_signed(by).min(last);
        self.selected = Some(self.snapshot.sources[at].id.clone());
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Next::End,
            KeyCode::Char('q') => return Next::End,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc => return Next::End,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Left => self.sort = self.sort.step(-1),
            KeyCode::Right => self.sort = self.sort.step(1),
            KeyCode::Char('r') => self.ascending = !self.ascending,
            KeyCode::Char(' ' | 'p') => self.pause(),
            _ => {}
        }
        Next::GoOn
    }
}
