//! The slots of a shard, and the two queues through them: lists by number, so that one in the middle can leave.

/// The end of a queue.
pub const NONE: u32 = u32::MAX;

/// Slots by number. They come in blocks: a list that doubles would have twice its memory while it does.
pub struct Slots<T> {
    blocks: Vec<Vec<QueueSlot<T>>>,
    free: u32,
    length: usize,
}

/// A slot: its entry, and the previous and next slot in its queue.
pub struct QueueSlot<T> {
    pub value: Option<Box<T>>,
    pub hash: u64,
    before: u32,
    after: u32,
    /// When it came into its queue.
    pub time: u64,
    /// How often it was used lately, up to three.
    pub uses: u8,
    pub main: bool,
}

/// First in, first out.
#[derive(Clone, Copy)]
pub struct Queue {
    first: u32,
    last: u32,
    pub bytes: usize,
}

/// Slots in a block: 10 KiB.
const BLOCK: usize = 256;

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { blocks: Vec::new(), free: NONE, length: 0 }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue { first: NONE, last: NONE, bytes: 0 }
    }
}

impl<T> Slots<T> {
    /// How many are taken.
    pub fn len(&self) -> usize {
        self.length
    }

    /// How many numbers there are, taken or free.
    pub fn places(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * BLOCK + last.len())
    }

    /// The bytes of memory of all slots.
    pub fn memory(&self) -> usize {
        self.blocks.len() * (BLOCK * size_of::<QueueSlot<T>>() + size_of::<Vec<QueueSlot<T>>>())
    }

    /// The bytes that the next slot to be taken allocates.
    pub fn step(&self) -> usize {
        let full = self.free == NONE && self.blocks.last().is_none_or(|last| last.len() == BLOCK);
        if full { BLOCK * size_of::<QueueSlot<T>>() + size_of::<Vec<QueueSlot<T>>>() } else { 0 }
    }

    pub fn get(&self, at: u32) -> Option<&QueueSlot<T>> {
        self.blocks.get(at as usize / BLOCK)?.get(at as usize % BLOCK)
    }

    pub fn get_mut(&mut self, at: u32) -> Option<&mut QueueSlot<T>> {
        self.blocks.get_mut(at as usize / BLOCK)?.get_mut(at as usize % BLOCK)
    }

    /// Takes a slot, in no queue yet.
    pub fn take(&mut self, hash: u64, value: Box<T>) -> u32 {
        self.length += 1;
        let slot = QueueSlot { value: Some(value), hash, before: NONE, after: NONE, time: 0, uses: 0, main: false };
        let at = self.free;
        if let Some(free) = self.get_mut(at) {
            let next = free.after;
            *free = slot;
            self.free = next;
            return at;
        }
        if self.blocks.last().is_none_or(|last| last.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        if let Some(last) = self.blocks.last_mut() {
            last.push(slot);
        }
        (self.places() - 1) as u32
    }

    /// Frees a slot that is in no queue.
    pub fn release(&mut self, at: u32) -> Option<Box<T>> {
        let next = self.free;
        let slot = self.get_mut(at)?;
        let value = slot.value.take()?;
        slot.after = next;
        self.free = at;
        self.length -= 1;
        Some(value)
    }
}

impl Queue {
    /// The entry that came first.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    pub fn push<T>(&mut self, slots: &mut Slots<T>, at: u32, bytes: usize) {
        let last = self.last;
        if let Some(slot) = slots.get_mut(at) {
            (slot.before, slot.after) = (last, NONE);
        }
        match slots.get_mut(last) {
            Some(slot) => slot.after = at,
            None => self.first = at,
        }
        self.last = at;
        self.bytes += bytes;
    }

    pub fn remove<T>(&mut self, slots: &mut Slots<T>, at: u32, bytes: usize) {
        let Some((before, after)) = slots.get(at).map(|slot| (slot.before, slot.after)) else { return };
        match slots.get_mut(before) {
            Some(slot) => slot.after = after,
            None => self.first = after,
        }
        match slots.get_mut(after) {
            Some(slot) => slot.before = before,
            None => self.last = before,
        }
        self.bytes -= bytes;
    }
}
