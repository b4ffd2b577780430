//! The loop around the state, and the terminal: taken over, drawn on, and given back, also when a thread panics.

use crate::app::{App, Request};
use crate::event::Event;
use crate::view::{draw, text, Capabilities};
use corun_session::Stop;
use ratatui::crossterm::event::{self, Event as TerminalEvent};
use ratatui::DefaultTerminal;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long a key may go unnoticed while windows come, and a window while keys do.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the state until the user or a signal ends it. What the user asks for is done by `perform`, which says what came of it.
///
/// # Errors
/// When the terminal can no longer be read or written.
pub fn run(
    app: &mut App,
    caps: Capabilities,
    events: &Receiver<Event>,
    stop: &Stop,
    perform: impl FnMut(Request, &mut App) -> String,
) -> io::Result<()> {
    // From here on a panic of any thread gives the terminal back first.
    let mut terminal = ratatui::try_init()?;
    let done = follow(&mut terminal, app, caps, events, stop, perform);
    ratatui::restore();
    done
}

fn follow(
    terminal: &mut DefaultTerminal,
    app: &mut App,
    caps: Capabilities,
    events: &Receiver<Event>,
    stop: &Stop,
    mut perform: impl FnMut(Request, &mut App) -> String,
) -> io::Result<()> {
    take(app, events);
    terminal.draw(|frame| draw(frame, app, caps))?;
    while !stop.is_asked() {
        let mut is_new = take(app, events);
        if event::poll(LOOK)? {
            is_new = true;
            if let TerminalEvent::Key(key) = event::read()? {
                match app.on_key(&key) {
                    Some(Request::Quit) => return Ok(()),
                    Some(request) => {
                        let said = perform(request, app);
                        app.notice = Some(said);
                    }
                    None => {}
                }
            }
        }
        if is_new {
            terminal.draw(|frame| draw(frame, app, caps))?;
        }
    }
    Ok(())
}

/// Takes what has come meanwhile; whether anything has.
fn take(app: &mut App, events: &Receiver<Event>) -> bool {
    let mut is_new = false;
    loop {
        match events.try_recv() {
            Ok(Event::Snapshot(snapshot)) => app.on_snapshot(snapshot),
            Ok(Event::Said(said)) => app.notice = Some(said),
            Ok(Event::Ended(why)) => app.ended = app.ended.take().or(Some(why)),
            Err(_) => return is_new,
        }
        is_new = true;
    }
}

/// One frame as text, without the line of keys: what stands on the screen after the first window.
///
/// `None`: there will be none.
pub fn once(
    app: &mut App,
    caps: Capabilities,
    columns: u16,
    rows: u16,
    events: &Receiver<Event>,
) -> Option<String> {
    if app.facts.is_replay {
        take(app, events);
        return Some(text(app, caps, columns, rows));
    }
    loop {
        match events.recv() {
            Ok(Event::Snapshot(snapshot)) => {
                app.on_snapshot(snapshot);
                return Some(text(app, caps, columns, rows));
            }
            Ok(Event::Said(_)) => {}
            Ok(Event::Ended(why)) => {
                app.ended = Some(why);
                return None;
            }
            Err(_) => return None,
        }
    }
}
