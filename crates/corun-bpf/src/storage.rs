//! Where libbpf's objects live: memory that does not move when its owner does.

use libbpf_rs::OpenObject;
use std::mem::MaybeUninit;

/// Owns what a skeleton borrows. It must be dropped after the skeleton: it is the last field of a struct that
/// holds both.
pub(crate) struct ObjectStorage(*mut MaybeUninit<OpenObject>);

impl ObjectStorage {
    /// New storage, and the borrow that a skeleton is opened with.
    pub(crate) fn new() -> (ObjectStorage, &'static mut MaybeUninit<OpenObject>) {
        let at = Box::into_raw(Box::new(MaybeUninit::uninit()));
        // SAFETY: freed only when the storage is dropped, which its owner does after dropping the skeleton.
        (ObjectStorage(at), unsafe { &mut *at })
    }
}

impl Drop for ObjectStorage {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, freed once; a `MaybeUninit` drops nothing of its own.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
