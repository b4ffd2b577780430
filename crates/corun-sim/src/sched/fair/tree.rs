//! The fair run queue's tree: a treap ordered by (key, entity), augmented with the least vruntime and the least
//! slice of every subtree, so that the earliest eligible deadline is found in O(log n).
//!
//! The kernel uses an augmented red-black tree; a treap has the same order with less code. Its priorities are a fixed hash of the
//! entity's number, so its shape depends only on its contents.

/// No entity.
pub const NIL: u32 = u32::MAX;

/// The tree's data of an entity, on one cache line. `left` and `right` are entity numbers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Node {
    /// The key that orders the queue: the deadline (EEVDF) or the vruntime (CFS).
    pub key: i64,
    /// The entity's vruntime.
    pub vruntime: i64,
    /// The entity's slice in nanoseconds.
    pub slice: u64,
    left: u32,
    right: u32,
    least_vruntime: i64,
    least_slice: u64,
}

impl Default for Node {
    fn default() -> Node {
        Node { key: 0, vruntime: 0, slice: 0, left: NIL, right: NIL, least_vruntime: 0, least_slice: 0 }
    }
}

/// All nodes of all trees, by entity number.
#[derive(Clone, Debug, Default)]
pub struct Nodes(pub Vec<Node>);

fn priority(entity: u32) -> u32 {
    (entity.wrapping_add(1)).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b)
}

impl Nodes {
    fn get(&self, e: u32) -> &Node {
        &self.0[e as usize]
    }

    fn before(&self, a: u32, b: u32) -> bool {
        (self.get(a).key, a) < (self.get(b).key, b)
    }

    fn pull(&mut self, e: u32) {
        let Node { left, right, vruntime, slice, .. } = *self.get(e);
        let (mut least_vruntime, mut least_slice) = (vruntime, slice);
        // No entity has the number `NIL`.
        for child in [left, right].into_iter().filter_map(|child| self.0.get(child as usize)) {
            least_vruntime = least_vruntime.min(child.least_vruntime);
            least_slice = least_slice.min(child.least_slice);
        }
        let node = &mut self.0[e as usize];
        (node.least_vruntime, node.least_slice) = (least_vruntime, least_slice);
    }

    /// Puts an entity into the tree; returns the new root.
    #[inline]
    pub fn insert(&mut self, root: u32, e: u32, key: i64, vruntime: i64, slice: u64) -> u32 {
        let (least_vruntime, least_slice) = (vruntime, slice);
        self.0[e as usize] =
            Node { key, vruntime, slice, left: NIL, right: NIL, least_vruntime, least_slice };
        if root == NIL {
            e
        } else {
            self.insert_below(root, e)
        }
    }

    fn insert_below(&mut self, root: u32, e: u32) -> u32 {
        if priority(e) > priority(root) {
            let (left, right) = self.split(root, e);
            let node = &mut self.0[e as usize];
            (node.left, node.right) = (left, right);
            self.pull(e);
            return e;
        }
        let Node { left, right, .. } = *self.get(root);
        if self.before(e, root) {
            self.0[root as usize].left = if left == NIL { e } else { self.insert_below(left, e) };
        } else {
            self.0[root as usize].right = if right == NIL { e } else { self.insert_below(right, e) };
        }
        self.pull(root);
        root
    }

    /// Splits a tree into the parts before and after `e`.
    fn split(&mut self, root: u32, e: u32) -> (u32, u32) {
        if root == NIL {
            return (NIL, NIL);
        }
        let parts = if self.before(root, e) {
            let (left, right) = self.split(self.get(root).right, e);
            self.0[root as usize].right = left;
            (root, right)
        } else {
            let (left, right) = self.split(self.get(root).left, e);
            self.0[root as usize].left = right;
            (left, root)
        };
        self.pull(root);
        parts
    }

    /// Takes an entity out; returns the new root.
    ///
    /// # Panics
    /// If the entity is not in the tree, or its key changed while it was.
    #[inline]
    pub fn remove(&mut self, root: u32, e: u32) -> u32 {
        if root == e {
            let Node { left, right, .. } = *self.get(e);
            return self.merge(left, right);
        }
        assert_ne!(root, NIL, "entity {e} is not queued");
        self.remove_below(root, e)
    }

    fn remove_below(&mut self, root: u32, e: u32) -> u32 {
        if self.before(e, root) {
            let left = self.remove(self.get(root).left, e);
            self.0[root as usize].left = left;
        } else {
            let right = self.remove(self.get(root).right, e);
            self.0[root as usize].right = right;
        }
        self.pull(root);
        root
    }

    #[inline]
    fn merge(&mut self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (NIL, only) | (only, NIL) => only,
            _ => self.merge_both(a, b),
        }
    }

    fn merge_both(&mut self, a: u32, b: u32) -> u32 {
        if priority(a) > priority(b) {
            let right = self.merge(self.get(a).right, b);
            self.0[a as usize].right = right;
            self.pull(a);
            a
        } else {
            let left = self.merge(a, self.get(b).left);
            self.0[b as usize].left = left;
            self.pull(b);
            b
        }
    }

    /// The entity with the least key.
    pub fn first(&self, root: u32) -> Option<u32> {
        let mut e = (root != NIL).then_some(root)?;
        while self.get(e).left != NIL {
            e = self.get(e).left;
        }
        Some(e)
    }

    /// The entity with the least key among those whose vruntime satisfies `eligible`. `eligible` must hold
    /// for every vruntime below one for which it holds.
    pub fn first_eligible(&self, root: u32, eligible: impl Fn(i64) -> bool) -> Option<u32> {
        let mut e = root;
        while e != NIL {
            let node = self.get(e);
            if node.left != NIL && eligible(self.get(node.left).least_vruntime) {
                e = node.left;
            } else if eligible(node.vruntime) {
                return Some(e);
            } else {
                e = node.right;
            }
        }
        None
    }

    /// The least vruntime in a tree.
    pub fn least_vruntime(&self, root: u32) -> Option<i64> {
        self.0.get(root as usize).map(|node| node.least_vruntime)
    }

    /// The least slice in a tree.
    pub fn least_slice(&self, root: u32) -> Option<u64> {
        self.0.get(root as usize).map(|node| node.least_slice)
    }

    /// Visits the tree in order of keys until `visit` returns `false`.
    pub fn visit(&self, root: u32, visit: &mut impl FnMut(u32) -> bool) -> bool {
        root == NIL
            || (self.visit(self.get(root).left, visit)
                && visit(root)
                && self.visit(self.get(root).right, visit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_tree_finds_what_a_scan_finds(items in proptest::collection::vec((0i64..50, 0i64..50, 1u64..9, any::<bool>()), 1..60), limit in 0i64..50) {
            let mut nodes = Nodes::default();
            let mut root = NIL;
            let mut held = Vec::new();
            for (i, &(key, vruntime, slice, _)) in items.iter().enumerate() {
                nodes.0.push(Node::default());
                root = nodes.insert(root, i as u32, key, vruntime, slice);
            }
            for (i, &(key, vruntime, slice, stays)) in items.iter().enumerate() {
                if stays {
                    held.push((key, i as u32, vruntime, slice));
                } else {
                    root = nodes.remove(root, i as u32);
                }
            }
            held.sort();
            prop_assert_eq!(nodes.first(root), held.first().map(|h| h.1));
            prop_assert_eq!(nodes.first_eligible(root, |v| v <= limit), held.iter().find(|h| h.2 <= limit).map(|h| h.1));
            prop_assert_eq!(nodes.least_vruntime(root), held.iter().map(|h| h.2).min());
            prop_assert_eq!(nodes.least_slice(root), held.iter().map(|h| h.3).min());
            let mut order = Vec::new();
            nodes.visit(root, &mut |e| { order.push(e); true });
            prop_assert_eq!(order, held.iter().map(|h| h.1).collect::<Vec<_>>());
        }
    }
}
