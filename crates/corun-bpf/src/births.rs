//! Which process started which, from the moment this is loaded.

use crate::births_skel::{BirthsSkel, BirthsSkelBuilder};
use crate::storage::ObjectStorage;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::{Ref, RefCell};
use std::rc::Rc;

/// A process that another one has started. Both are PIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Who started it.
    pub parent: u32,
    /// The new process.
    pub child: u32,
}

/// Watches births until it is dropped.
pub struct Births {
    seen: Rc<RefCell<Vec<Birth>>>,
    ring: RingBuffer<'static>,
    skel: BirthsSkel<'static>,
    // Owns what `skel` borrows: fields are dropped in this order.
    _object: ObjectStorage,
}

impl Births {
    /// Starts to watch. `None` if the kernel refuses it. Then it also refuses the probe, and says why.
    pub fn watch() -> Option<Births> {
        libbpf_rs::set_print(None);
        let (storage, object) = ObjectStorage::new();
        let mut skel = BirthsSkelBuilder::default().open(object).ok()?.load().ok()?;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let into = seen.clone();
        let mut ring = RingBufferBuilder::new();
        let keep = move |bytes: &[u8]| {
            if let [parent, child] = bytes.as_chunks::<4>().0 {
                let (parent, child) = (u32::from_ne_bytes(*parent), u32::from_ne_bytes(*child));
                into.borrow_mut().push(Birth { parent, child });
            }
            0
        };
        ring.add(&skel.maps.births, keep).ok()?;
        let ring = ring.build().ok()?;
        skel.attach().ok()?;
        Some(Births { seen, ring, skel, _object: storage })
    }

    /// All births so far, in order.
    pub fn so_far(&self) -> Ref<'_, Vec<Birth>> {
        // An error means that the ring is gone. Then there is nothing to return.
        let _ = self.ring.consume();
        self.seen.borrow()
    }

    /// How many births found no room.
    pub fn lost(&self) -> u64 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.lost)
    }
}
