//! The state of `top`: keys and windows come in, and now and then a request for the caller comes out. It
//! touches no terminal, file or clock.

use crate::history::History;
use crate::keys::{Action, Keys};
use crate::snapshot::{Holder, Row, Snapshot};
use corun_model::{TenantId, TenantKind};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::cmp::Reverse;
use std::sync::Arc;

/// Rows of a page.
const PAGE: isize = 10;
/// Letters that a filter can have.
const LONG_FILTER: usize = 40;

/// Facts that are known before the first window.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The subject, for people: everybody, or a file.
    pub target: String,
    /// Whether a file is shown, so that nothing new comes.
    pub is_replay: bool,
    /// What cannot be seen here and why, a sentence each; safe on a terminal.
    pub missing: Vec<String>,
}

/// A wish of the user that the state alone cannot fulfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Leave.
    Quit,
    /// Write a report of the displayed window.
    Save,
    /// Trace everybody for a while.
    Trace,
    /// Find the longest waits of the displayed tenant for a while, or those of everybody.
    Worst,
    /// Look at the time before the present part of a replay.
    Before,
    /// Look at what follows it.
    After,
}

/// The present view. Each goes back to the one below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Screen {
    /// All tenants.
    Overview {
        /// The selected row; `None`: the first, whichever that is.
        chosen: Option<TenantId>,
    },
    /// Victims and culprits.
    Matrix {
        /// The selected victim; `None`: the first.
        chosen: Option<TenantId>,
    },
    /// One tenant.
    Tenant {
        /// Who.
        id: TenantId,
        /// The list in which the rows are selected.
        focus: Focus,
        /// Which of its culprits is chosen.
        culprit: usize,
        /// Which of its threads.
        thread: usize,
    },
}

/// The lists of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Who held the CPU.
    Culprits,
    /// Its threads.
    Threads,
}

/// The sort key of tenants, descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is a column of the table")]
pub enum Sort {
    Name,
    Tasks,
    Ran,
    Lost,
    ToOthers,
    Took,
}

/// In the order of the columns.
pub const SORTS: [Sort; 6] = [Sort::Name, Sort::Tasks, Sort::Ran, Sort::Lost, Sort::ToOthers, Sort::Took];

/// The state.
#[derive(Clone, Debug)]
pub struct App {
    /// Facts that are known from the beginning.
    pub facts: Facts,
    /// The observations.
    pub history: History,
    /// Which key does what.
    pub keys: Keys,
    /// The number of the held snapshot; `None`: the newest, whichever that is.
    held: Option<u64>,
    screens: Vec<Screen>,
    /// Letters that a tenant's name must have.
    pub filter: String,
    /// Whether keys are letters of the filter.
    pub is_typing: bool,
    /// What tenants are sorted by.
    pub sort: Sort,
    /// Whether the help is shown.
    pub is_helping: bool,
    /// The result of the last request; gone with the next key.
    pub notice: Option<String>,
    /// Why nothing new comes any more.
    pub ended: Option<String>,
}

impl App {
    /// Nothing was seen yet.
    pub fn new(facts: Facts, keys: Keys) -> App {
        App {
            facts,
            history: History::default(),
            keys,
            held: None,
            screens: vec![Screen::Overview { chosen: None }],
            filter: String::new(),
            is_typing: false,
            sort: Sort::ToOthers,
            is_helping: false,
            notice: None,
            ended: None,
        }
    }

    /// A window has passed.
    pub fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.history.push(snapshot);
    }

    /// Another part of a replay is to be shown, from its end or from its beginning.
    pub fn turn_to(&mut self, snapshots: Vec<Arc<Snapshot>>, from_its_end: bool) {
        self.history = History::of(snapshots, from_its_end);
        let place = if from_its_end { self.history.len().saturating_sub(1) } else { 0 };
        self.held = self.history.at(place).map(|snapshot| snapshot.number);
    }

    /// The snapshot that is shown.
    pub fn shown(&self) -> Option<&Arc<Snapshot>> {
        match self.held {
            Some(number) => self.history.at(self.history.place(number)),
            None => self.history.newest(),
        }
    }

    /// The position of the displayed snapshot in the history.
    pub fn place(&self) -> usize {
        self.held.map_or(self.history.len().saturating_sub(1), |number| self.history.place(number))
    }

    /// Whether it stays at one snapshot.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The current view.
    pub fn screen(&self) -> &Screen {
        self.screens.last().expect("the overview is never left")
    }

    fn is_in_tenant(&self) -> bool {
        matches!(self.screen(), Screen::Tenant { .. })
    }

    /// The displayed tenants, in their order.
    pub fn rows(&self) -> Vec<&Row> {
        let Some(snapshot) = self.shown() else { return Vec::new() };
        let wanted = self.filter.to_lowercase();
        let is_shown = |row: &&Row| {
            row.kind != TenantKind::Idle && (wanted.is_empty() || row.name.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&Row> = snapshot.rows.iter().filter(is_shown).collect();
        match self.sort {
            Sort::Name => rows.sort_by_key(|row| row.name.to_lowercase()),
            sort => rows.sort_by_key(|row| {
                let by = match sort {
                    Sort::Tasks => row.tasks,
                    Sort::Ran => row.ran_ns,
                    Sort::Lost => row.lost.total_ns(),
                    Sort::Took => row.took_ns,
                    _ if !row.kind.is_co_runner() => 0,
                    _ => row.lost.by_others_ns(),
                };
                (Reverse(by), Reverse(row.lost.total_ns()), Reverse(row.ran_ns), row.id)
            }),
        }
        rows
    }

    /// The position of the selected tenant among the rows.
    pub fn chosen_row(&self) -> usize {
        let chosen = match self.screen() {
            Screen::Overview { chosen } | Screen::Matrix { chosen } => *chosen,
            Screen::Tenant { id, .. } => Some(*id),
        };
        chosen.and_then(|id| self.rows().iter().position(|row| row.id == id)).unwrap_or(0)
    }

    /// The tenant that is displayed or selected.
    pub fn tenant(&self) -> Option<TenantId> {
        match self.screen() {
            Screen::Tenant { id, .. } => Some(*id),
            _ => self.rows().get(self.chosen_row()).map(|row| row.id),
        }
    }

    /// Who held the CPU while this tenant waited.
    pub fn culprits(&self, id: TenantId) -> Vec<(Holder, u64)> {
        let of = |snapshot: &Arc<Snapshot>| Some(snapshot.holders(id, snapshot.account(id)?));
        self.shown().and_then(of).unwrap_or_default()
    }

    /// A key was pressed. If the state cannot fulfill its request, the result is that request.
    pub fn on_key(&mut self, key: &KeyEvent) -> Option<Request> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.notice = None;
        if self.is_typing && self.type_filter(key) {
            return None;
        }
        let action = self.keys.action(key)?;
        if self.is_helping && !matches!(action, Action::Quit) {
            self.is_helping = false;
            return None;
        }
        match action {
            Action::Quit => return Some(Request::Quit),
            Action::Save => return self.shown().map(|_| Request::Save),
            Action::Trace | Action::Worst if self.facts.is_replay => {
                self.notice = Some("only what happens now can be traced; this is the past".into())
            }
            Action::Trace => return Some(Request::Trace),
            Action::Worst => return Some(Request::Worst),
            Action::Pause if self.facts.is_replay => {
                self.notice = Some("this is the past, which stands still; nothing has to be held".into())
            }
            Action::Filter | Action::SortNext | Action::SortBefore if self.is_in_tenant() => {
                self.notice =
                    Some("only the list of tenants is filtered and sorted; go back to it first".into())
            }
            Action::Help => self.is_helping = true,
            Action::Filter => self.is_typing = true,
            Action::Up => self.move_by(-1),
            Action::Down => self.move_by(1),
            Action::PageUp => self.move_by(-PAGE),
            Action::PageDown => self.move_by(PAGE),
            Action::First => self.move_by(isize::MIN / 2),
            Action::Last => self.move_by(isize::MAX / 2),
            Action::Enter => self.enter(),
            Action::Back => self.back(),
            Action::Matrix => self.matrix(),
            Action::Focus => self.other_list(),
            Action::SortNext => self.sort_by(1),
            Action::SortBefore => self.sort_by(SORTS.len() - 1),
            Action::Pause => self.hold_or_go_on(),
            Action::Earlier => return self.step(-1),
            Action::Later => return self.step(1),
        }
        None
    }

    /// Whether a key was a letter of the filter, or ended it.
    fn type_filter(&mut self, key: &KeyEvent) -> bool {
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if is_plain => {
                if !c.is_control() && self.filter.chars().count() < LONG_FILTER {
                    self.filter.push(c);
                }
            }
            _ => return false,
        }
        true
    }

    fn move_by(&mut self, rows: isize) {
        let moved = |from: usize, len: usize| {
            let last = len.saturating_sub(1);
            from.min(last).saturating_add_signed(rows).min(last)
        };
        match self.screen().clone() {
            Screen::Overview { .. } | Screen::Matrix { .. } => {
                let rows = self.rows();
                let to = rows.get(moved(self.chosen_row(), rows.len())).map(|row| row.id);
                if let Some(Screen::Overview { chosen } | Screen::Matrix { chosen }) = self.screens.last_mut()
                {
                    *chosen = to
                }
            }
            Screen::Tenant { id, focus, culprit, thread } => {
                let culprits = self.culprits(id).len();
                let threads = self.shown().map_or(0, |snapshot| snapshot.tasks(id).len());
                let (culprit, thread) = match focus {
                    Focus::Culprits => (moved(culprit, culprits), thread),
                    Focus::Threads => (culprit, moved(thread, threads)),
                };
                *self.screens.last_mut().expect("it is on top") =
                    Screen::Tenant { id, focus, culprit, thread };
            }
        }
    }

    fn enter(&mut self) {
        let to = match self.screen() {
            Screen::Tenant { focus: Focus::Threads, .. } => None,
            Screen::Tenant { id, culprit, .. } => match self.culprits(*id).get(*culprit) {
                Some((Holder::Tenant(id), _)) => Some(*id),
                _ => None,
            },
            _ => self.tenant(),
        };
        match to {
            Some(id) => {
                self.screens.push(Screen::Tenant { id, focus: Focus::Culprits, culprit: 0, thread: 0 });
            }
            None => self.notice = Some("there is nothing behind this row".into()),
        }
    }

    fn back(&mut self) {
        if self.screens.len() > 1 {
            self.screens.pop();
        } else {
            self.filter.clear();
        }
    }

    fn matrix(&mut self) {
        match self.screen() {
            Screen::Matrix { .. } => self.back(),
            _ => self.screens.push(Screen::Matrix { chosen: self.tenant() }),
        }
    }

    fn other_list(&mut self) {
        match self.screens.last_mut() {
            Some(Screen::Tenant { focus, .. }) => {
                *focus = if *focus == Focus::Culprits { Focus::Threads } else { Focus::Culprits };
            }
            _ => self.matrix(),
        }
    }

    fn sort_by(&mut self, columns: usize) {
        let at = SORTS.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = SORTS[(at + columns) % SORTS.len()];
    }

    fn hold_or_go_on(&mut self) {
        self.held = match self.held {
            Some(_) => None,
            None => self.shown().map(|snapshot| snapshot.number),
        };
    }

    /// A file has more than fits: beyond the ends of this part the caller must look.
    fn step(&mut self, snapshots: isize) -> Option<Request> {
        let place = self.place();
        let to = place.saturating_add_signed(snapshots).min(self.history.len().saturating_sub(1));
        if to == place && self.facts.is_replay && !self.history.is_empty() {
            return Some(if snapshots < 0 { Request::Before } else { Request::After });
        }
        if to == place {
            let end = if snapshots < 0 { "the oldest" } else { "the newest" };
            self.notice = Some(format!("this is {end} window there is"));
        }
        self.held = self.history.at(to).map(|snapshot| snapshot.number);
        None
    }
}
