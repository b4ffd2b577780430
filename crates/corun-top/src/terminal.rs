//! The loop around the state, and the terminal: taken over, drawn on, and returned, even if a thread panics.
//!
//! Keys are read in a thread of their own: crossterm keeps reading forever from a closed terminal, and the
//! end of the loop is checked here.

use crate::app::{App, Request};
use crate::event::Event;
use crate::view::{draw, text, Capabilities};
use corun_linux::limits::start_thread;
use corun_session::Stop;
use ratatui::crossterm::event::{self, Event as TerminalEvent};
use ratatui::DefaultTerminal;
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long a key may go unnoticed while windows come, and a window while keys do.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the state until the user or a signal ends it. `perform` does what the user requests, and returns the
/// result.
///
/// # Errors
/// If the terminal can no longer be read or written.
pub fn run(
    app: &mut App,
    caps: Capabilities,
    events: &Receiver<Event>,
    stop: &Stop,
    perform: impl FnMut(Request, &mut App) -> String,
) -> io::Result<()> {
    // From here on, a panic of any thread returns the terminal first.
    let mut terminal = ratatui::try_init()?;
    let done = follow(&mut terminal, app, caps, events, stop, perform);
    if is_closed() {
        // There is nothing to return, and dropping it would report that on standard error, which may be
        // closed as well.
        std::mem::forget(terminal);
    } else {
        ratatui::restore();
    }
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
    let keys = keys()?;
    take(app, events);
    terminal.draw(|frame| draw(frame, app, caps))?;
    while !stop.is_asked() && !is_closed() {
        let mut is_new = take(app, events);
        match keys.recv_timeout(LOOK) {
            Ok(TerminalEvent::Key(key)) => {
                is_new = true;
                match app.on_key(&key) {
                    Some(Request::Quit) => return Ok(()),
                    Some(request) => {
                        let said = perform(request, app);
                        app.notice = Some(said);
                    }
                    None => {}
                }
            }
            // Its size has changed, say.
            Ok(_) => is_new = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("it cannot be read any more"))
            }
        }
        if is_new {
            terminal.draw(|frame| draw(frame, app, caps))?;
        }
    }
    Ok(())
}

/// Typed keys, and changes of the terminal's size.
fn keys() -> io::Result<Receiver<TerminalEvent>> {
    let (to, keys) = channel();
    let read = move || {
        // A receiver that has gone wants no more of them.
        while let Ok(event) = event::read() {
            if to.send(event).is_err() {
                return;
            }
        }
    };
    start_thread("corun-keys", read)?;
    Ok(keys)
}

/// Whether the terminal behind standard output has gone.
fn is_closed() -> bool {
    let mut output = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: one descriptor, which outlives the call, and no wait.
    let told = unsafe { libc::poll(&mut output, 1, 0) };
    told > 0 && output.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Takes the events that have come meanwhile; returns whether there were any.
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

/// One frame as text, without the line of keys: the screen after the first window.
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
