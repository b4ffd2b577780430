//! The effects of a policy, as tracks of a trace for <https://ui.perfetto.dev>: whether it was in force, when
//! each tenant was parked, and each reason for as long as it held. They are next to the CPU tracks and
//! counters that [`crate::perfetto`] draws of the same time, on the same clock.

use super::history::History;
use crate::html::tenants::Tenants;
use crate::perfetto::append;
use crate::perfetto::proto::{
    self, DebugAnnotation, TracePacket, TrackDescriptor, TrackEvent, TYPE_SLICE_BEGIN, TYPE_SLICE_END,
};
use crate::profile::schema::ProfileReport;
use corun_model::TenantId;

/// The track that contains the others; counters have the numbers from 1 on.
const GROUP: u64 = 1 << 32;

/// Packets to append to a trace of the same time; `policy` names the tracks, `profile` the tenants.
pub fn encode(policy: &str, history: &History, profile: &ProfileReport) -> Vec<u8> {
    let tenants = Tenants::of(profile);
    let called = |id: TenantId| tenants.name(id.0);
    let mut tracks = Tracks { out: Vec::new(), next: GROUP, begin_ns: history.begin_ns() };
    tracks.add(format!("corun control: {policy}"), None);
    let periods = tracks.add("in force".into(), Some(GROUP));
    for p in history.periods().iter().filter(|p| p.with) {
        tracks.slice(periods, (p.from_ns, p.to_ns), policy, &[]);
    }
    for tenant in history.ever_parked() {
        let track = tracks.add(called(tenant), Some(GROUP));
        for stop in history.stops(tenant) {
            tracks.slice(track, stop, "parked", &[]);
        }
    }
    for r in history.reasons() {
        // Reasons overlap, but slices of one track must not.
        let track = tracks.add(format!("why: {}", r.what), Some(GROUP));
        let whom = r.who.iter().map(|&id| called(id)).collect::<Vec<_>>().join(", ");
        let told = [
            ("whom", if whom.is_empty() { "tasks".to_owned() } else { whom }),
            ("times", r.times.to_string()),
            ("outcome", r.outcome.clone()),
        ];
        // A single decision has no length, and would be invisible.
        tracks.slice(track, (r.from_ns, r.to_ns.max(r.from_ns + 1)), &r.because, &told);
    }
    tracks.out
}

struct Tracks {
    out: Vec<u8>,
    next: u64,
    begin_ns: u64,
}

impl Tracks {
    fn add(&mut self, name: String, parent: Option<u64>) -> u64 {
        let uuid = self.next;
        self.next += 1;
        let descriptor =
            TrackDescriptor { uuid: Some(uuid), name: Some(name), parent_uuid: parent, counter: None };
        append(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() }, &mut self.out);
        uuid
    }

    fn slice(&mut self, track: u64, (from_ns, to_ns): (u64, u64), name: &str, told: &[(&str, String)]) {
        let annotation = |(name, value): &(&str, String)| DebugAnnotation {
            name: Some((*name).to_owned()),
            string_value: Some(value.clone()),
        };
        let begin = TrackEvent {
            r#type: Some(TYPE_SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(name.to_owned()),
            debug_annotations: told.iter().map(annotation).collect(),
            ..TrackEvent::default()
        };
        let end =
            TrackEvent { r#type: Some(TYPE_SLICE_END), track_uuid: Some(track), ..TrackEvent::default() };
        for (at_ns, event) in [(from_ns, begin), (to_ns, end)] {
            let packet = TracePacket {
                timestamp: Some(self.begin_ns + at_ns),
                track_event: Some(event),
                ..proto::TracePacket::default()
            };
            append(packet, &mut self.out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Decided;
    use crate::{Host, ProfileMeta, Source, Subject};
    use corun_model::{Action, Decision, Fate, Machine, Observation, Outcome, Reason};
    use prost::Message;

    #[test]
    fn every_stop_is_a_slice_on_its_tenants_track_at_the_hosts_clock() {
        let mut history = History::new(1_000);
        for (at_ns, action) in [
            (1_100, Action::Park { tenant: TenantId(4) }),
            (1_150, Action::Unpark { tenant: TenantId(4) }),
            (1_200, Action::Park { tenant: TenantId(4) }),
        ] {
            let decision = Decision { action, because: Reason::NewTaskSlices };
            let decided = Decided::new(&decision, &Fate::Applied(Outcome::Done), &Observation::default());
            history.decided(at_ns, &decision, &decided);
        }
        history.undone(1_300, "the end", None);
        let meta = ProfileMeta::new(Host::Sim, Source::Sim, "", &Machine::synthetic(1, 1, 1, 1));
        let profile = ProfileReport::new(&meta, &Observation::default(), Subject::All, &[]);
        let trace = proto::Trace::decode(&*encode("gang", &history, &profile)).unwrap();
        let named = |name: &str| {
            let of = |p: &&TracePacket| {
                p.track_descriptor.as_ref().is_some_and(|d| d.name.as_deref() == Some(name))
            };
            trace.packet.iter().find(of).unwrap().track_descriptor.as_ref().unwrap().uuid.unwrap()
        };
        let track = named("tenant 4");
        let of_track = |p: &TracePacket| {
            let event = p.track_event.as_ref().filter(|e| e.track_uuid == Some(track))?;
            Some((p.timestamp?, event.r#type?))
        };
        let begin_and_end = [(1_100, 1), (1_150, 2), (1_200, 1), (1_300, 2)];
        assert_eq!(trace.packet.iter().filter_map(of_track).collect::<Vec<_>>(), begin_and_end);
        let why = trace.packet.iter().filter_map(|p| p.track_event.as_ref()?.name.as_deref());
        assert!(why.into_iter().any(|name| name.starts_with("a new task")));
    }
}
