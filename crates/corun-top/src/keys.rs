//! Which key does what: the default keys, and a file that changes them.
//!
//! ```toml
//! [keys]
//! quit = ["q", "ctrl-x"]
//! pause = "p"
//! ```
//!
//! The keys that a file names replace those of that action; no other action keeps such a key. Ctrl-C always
//! quits.

use corun_model::workload::read_toml;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// What a key can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is explained in ACTIONS")]
pub enum Action {
    Quit,
    Help,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Back,
    Matrix,
    Focus,
    Filter,
    SortNext,
    SortBefore,
    Pause,
    Earlier,
    Later,
    Save,
    Trace,
    Worst,
}

/// Every action: its name in a file, its default keys, and its effect.
pub const ACTIONS: [(Action, &str, &[&str], &str); 21] = [
    (Action::Up, "up", &["up", "k"], "the row above"),
    (Action::Down, "down", &["down", "j"], "the row below"),
    (Action::PageUp, "page-up", &["pageup"], "a page up"),
    (Action::PageDown, "page-down", &["pagedown"], "a page down"),
    (Action::First, "first", &["home", "g"], "the first row"),
    (Action::Last, "last", &["end", "G"], "the last row"),
    (Action::Enter, "enter", &["enter"], "look closer"),
    (Action::Back, "back", &["esc", "backspace"], "back"),
    (Action::Matrix, "matrix", &["m"], "who took from whom"),
    (Action::Focus, "focus", &["tab"], "culprits or threads"),
    (Action::Filter, "filter", &["/"], "names with these letters"),
    (Action::SortNext, "sort-next", &[">", "."], "sort by the next column"),
    (Action::SortBefore, "sort-before", &["<", ","], "sort by the column before"),
    (Action::Pause, "pause", &["space", "p"], "hold, or go on"),
    (Action::Earlier, "earlier", &["left", "h"], "a window back in time"),
    (Action::Later, "later", &["right", "l"], "a window forward"),
    (Action::Save, "save", &["s"], "save this window as HTML"),
    (Action::Trace, "trace", &["t"], "trace for five seconds"),
    (Action::Worst, "worst", &["w"], "the longest waits from now on"),
    (Action::Help, "help", &["?", "f1"], "this help"),
    (Action::Quit, "quit", &["q"], "quit"),
];

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Key {
    code: KeyCode,
    ctrl: bool,
    alt: bool,
}

/// Keys with names.
const NAMED: [(&str, KeyCode); 14] = [
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("backspace", KeyCode::Backspace),
    ("tab", KeyCode::Tab),
    ("delete", KeyCode::Delete),
    ("space", KeyCode::Char(' ')),
];

impl Key {
    /// The pressed key. Shift is in the letter.
    pub fn of(event: &KeyEvent) -> Key {
        let held = |modifier| event.modifiers.contains(modifier);
        Key { code: event.code, ctrl: held(KeyModifiers::CONTROL), alt: held(KeyModifiers::ALT) }
    }
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(text: String) -> Result<Key, String> {
        let mut rest = text.as_str();
        let mut held = |prefix: &str| match rest.strip_prefix(prefix) {
            Some(more) if !more.is_empty() => {
                rest = more;
                true
            }
            _ => false,
        };
        let (ctrl, alt) = (held("ctrl-"), held("alt-"));
        let mut letters = rest.chars();
        let code = match (letters.next(), letters.next()) {
            (Some(c), None) if !c.is_control() => Some(KeyCode::Char(c)),
            _ => NAMED.iter().find(|(name, _)| *name == rest).map(|(_, code)| *code).or_else(|| {
                let n: u8 = rest.strip_prefix('f')?.parse().ok()?;
                (1..=12).contains(&n).then_some(KeyCode::F(n))
            }),
        };
        let names = || NAMED.map(|(name, _)| name).join(", ");
        let wrong = || {
            format!(
                "`{text}` is no key; name a letter, f1 to f12, {}, with `ctrl-` or `alt-` in front",
                names()
            )
        };
        let code = code.ok_or_else(wrong)?;
        if !ctrl {
            return Ok(Key { code, ctrl, alt });
        }
        // With ctrl, a terminal sends no case, and for some letters the code of another key.
        match code {
            KeyCode::Char('c' | 'C') => Err(format!("`{text}` always quits; name another key")),
            KeyCode::Char('i' | 'I') => {
                Err(format!("terminals send tab for `{text}`; name that, or another key"))
            }
            KeyCode::Char('m' | 'M') => {
                Err(format!("terminals send enter for `{text}`; name that, or another key"))
            }
            KeyCode::Char(c) if c.is_ascii_alphabetic() => {
                Ok(Key { code: KeyCode::Char(c.to_ascii_lowercase()), ctrl, alt })
            }
            KeyCode::Enter | KeyCode::Tab | KeyCode::Esc | KeyCode::Backspace | KeyCode::Char('!'..) => {
                Err(format!("terminals do not send `{text}`; name `ctrl-` with a letter, or another key"))
            }
            code => Ok(Key { code, ctrl, alt }),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = |is_held, name| if is_held { name } else { "" };
        f.write_str(held(self.ctrl, "ctrl-"))?;
        f.write_str(held(self.alt, "alt-"))?;
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, KeyCode::F(n)) => write!(f, "f{n}"),
            (None, code) => write!(f, "{code}"),
        }
    }
}

/// Which key does what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Vec<(Key, Action)>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    keys: BTreeMap<Action, OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a key such as \"q\", or several in brackets")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A file of keys with an error.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum KeysError {
    /// It is not TOML, or names something that does not exist.
    #[error("line {line}: {what}")]
    Malformed {
        /// Which line, from 1.
        line: usize,
        /// The error.
        what: String,
    },
    /// There is no such key.
    #[error("key of `{action}`: {what}")]
    NoKey {
        /// Whose.
        action: &'static str,
        /// The error.
        what: String,
    },
    /// One key would do two things.
    #[error("`{key}` cannot mean both `{one}` and `{other}`; give each a key of its own")]
    Twice {
        /// The key.
        key: String,
        /// Its intended action.
        one: &'static str,
        /// The other thing.
        other: &'static str,
    },
}

impl Default for Keys {
    fn default() -> Keys {
        let key = |name: &&str| Key::try_from((*name).to_owned()).expect("these keys exist");
        let all = ACTIONS.iter().flat_map(|(action, _, keys, _)| keys.iter().map(move |k| (key(k), *action)));
        Keys(all.collect())
    }
}

impl Keys {
    /// The usual keys, changed by a file.
    ///
    /// # Errors
    /// [`KeysError`], one sentence.
    pub fn read(text: &str) -> Result<Keys, KeysError> {
        let file: File = read_toml(text).map_err(|(line, what)| KeysError::Malformed { line, what })?;
        let mut claimed: Vec<(Key, Action)> = Vec::new();
        for (action, keys) in &file.keys {
            let keys = match keys {
                OneOrMore::One(key) => std::slice::from_ref(key),
                OneOrMore::More(keys) => keys.as_slice(),
            };
            for key in keys {
                let key = Key::try_from(key.clone())
                    .map_err(|what| KeysError::NoKey { action: name(*action), what })?;
                match claimed.iter().find(|(other, _)| *other == key) {
                    Some((_, other)) if other != action => {
                        return Err(KeysError::Twice {
                            key: key.to_string(),
                            one: name(*other),
                            other: name(*action),
                        })
                    }
                    Some(_) => {}
                    None => claimed.push((key, *action)),
                }
            }
        }
        let Keys(mut keys) = Keys::default();
        keys.retain(|(key, action)| {
            !file.keys.contains_key(action) && claimed.iter().all(|(other, _)| other != key)
        });
        keys.extend(claimed);
        // In the order of the table, so that files with the same keys are identical.
        keys.sort_by_key(|(_, action)| ACTIONS.iter().position(|(a, ..)| a == action));
        Ok(Keys(keys))
    }

    /// What a pressed key does.
    pub fn action(&self, event: &KeyEvent) -> Option<Action> {
        let key = Key::of(event);
        if key.ctrl && key.code == KeyCode::Char('c') {
            return Some(Action::Quit);
        }
        self.0.iter().find(|(known, _)| *known == key).map(|(_, action)| *action)
    }

    /// The keys of an action, for people; empty if it has none.
    pub fn of(&self, action: Action) -> String {
        let own = self.0.iter().filter(|(_, a)| *a == action).map(|(key, _)| key.to_string());
        let always = (action == Action::Quit).then(|| "ctrl-c".to_owned());
        own.chain(always).collect::<Vec<String>>().join(" ")
    }

    /// All keys as a file that [`Keys::read`] reads.
    pub fn to_toml(&self) -> String {
        let line = |(action, name, _, what): &(Action, &str, &[&str], &str)| {
            let keys: Vec<String> = self
                .0
                .iter()
                .filter(|(_, a)| a == action)
                .map(|(key, _)| format!("{:?}", key.to_string()))
                .collect();
            format!("# {what}\n{name} = [{}]\n", keys.join(", "))
        };
        format!("[keys]\n{}", ACTIONS.iter().map(line).collect::<String>())
    }
}

fn name(action: Action) -> &'static str {
    ACTIONS.iter().find(|(a, ..)| *a == action).map_or("", |(_, name, ..)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(name: &str) -> KeyEvent {
        let key = Key::try_from(name.to_owned()).unwrap();
        let with = |is_held, modifier| if is_held { modifier } else { KeyModifiers::NONE };
        KeyEvent::new(key.code, with(key.ctrl, KeyModifiers::CONTROL) | with(key.alt, KeyModifiers::ALT))
    }

    #[test]
    fn the_usual_keys_do_what_the_help_says_and_no_key_does_two_things() {
        let keys = Keys::default();
        for (action, name, usual, _) in ACTIONS {
            for key in usual {
                assert_eq!(keys.action(&press(key)), Some(action), "{key} of {name}");
            }
        }
    }

    #[test]
    fn a_file_takes_a_key_away_from_its_action_and_ctrl_c_always_quits() {
        let keys = Keys::read("[keys]\nquit = \"x\"\nsave = [\"q\", \"ctrl-s\"]\n").unwrap();
        let action = |key: &str| keys.action(&press(key));
        assert_eq!(
            (action("x"), action("q"), action("ctrl-s")),
            (Some(Action::Quit), Some(Action::Save), Some(Action::Save))
        );
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!((action("s"), keys.action(&ctrl_c)), (None, Some(Action::Quit)));
    }

    #[test]
    fn a_key_that_no_terminal_sends_is_refused_and_ctrl_has_no_case() {
        let said = |key: &str| Keys::read(&format!("[keys]\nsave = \"{key}\"\n")).map_err(|e| e.to_string());
        for (key, wanted) in [
            ("ctrl-c", "`ctrl-c` always quits; name another key"),
            ("ctrl-C", "`ctrl-C` always quits"),
            ("ctrl-i", "terminals send tab for `ctrl-i`"),
            ("ctrl-m", "terminals send enter for `ctrl-m`"),
            ("ctrl-alt-m", "terminals send enter for `ctrl-alt-m`"),
            ("ctrl-1", "terminals do not send `ctrl-1`"),
            ("ctrl-é", "terminals do not send `ctrl-é`"),
            ("ctrl-enter", "terminals do not send `ctrl-enter`"),
            ("shift-tab", "`shift-tab` is no key"),
            ("Enter", "`Enter` is no key"),
            ("", "`` is no key"),
            ("ctrl-", "`ctrl-` is no key"),
        ] {
            let refused = said(key).unwrap_err();
            assert!(refused.starts_with("key of `save`: ") && refused.contains(wanted), "{refused}");
        }
        for key in ["ctrl-S", "ctrl-space", "ctrl-up", "alt-s", "f12", "Ä", "-"] {
            let keys = said(key).unwrap();
            assert_eq!(keys.action(&press(key)), Some(Action::Save), "{key}");
        }
        assert_eq!(said("ctrl-S").unwrap().of(Action::Save), "ctrl-s");
    }

    #[test]
    fn a_user_who_takes_all_keys_from_quitting_is_told_the_remaining_one() {
        let keys = Keys::read("[keys]\nquit = []\n").unwrap();
        assert_eq!(
            (keys.of(Action::Quit), Keys::default().of(Action::Quit)),
            ("ctrl-c".into(), "q ctrl-c".into())
        );
    }

    #[test]
    fn all_keys_are_written_as_a_file_that_can_be_read_again() {
        let keys = Keys::read("[keys]\nquit = \"x\"\n").unwrap();
        assert_eq!(Keys::read(&keys.to_toml()), Ok(keys));
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_line_or_the_action() {
        let said = |text: &str| Keys::read(text).unwrap_err().to_string();
        assert!(
            said("[keys]\nquit = \"q\"\nqit = \"q\"\n")
                .starts_with("line 3: there is no `qit`; name one of quit, help,"),
            "{}",
            said("[keys]\nquit = \"q\"\nqit = \"q\"\n")
        );
        assert_eq!(said("colours = 1\n"), "line 1: unknown field `colours`; name keys");
        assert_eq!(
            said("[keys]\nquit = 3\n"),
            "line 2: expected a key such as \"q\", or several in brackets"
        );
        assert!(said("[keys]\nquit = \"qq\"\n").starts_with("key of `quit`: `qq` is no key; name a letter"));
        assert_eq!(
            said("[keys]\nquit = \"x\"\nsave = \"x\"\n"),
            "`x` cannot mean both `quit` and `save`; give each a key of its own"
        );
    }
}
