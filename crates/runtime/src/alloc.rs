//! The memory of whatever this crate is part of: mimalloc, in place of the `malloc` of the C library.
//!
//! What a stage keeps is some ten thousand small records, made between buffers that come and go. glibc's own allocator keeps much of what
//! is free between them, and spends a tenth of a stage's processor time at rest; musl's, in images, has one lock for all threads. Pages
//! are small ones (the feature `no_thp`): huge ones double what a stage of 5,000 nodes keeps resident.
//!
//! As a `#[global_allocator]` it would be asked for each block with its alignment (`mi_malloc_aligned`), and then makes room for what may
//! be lost to that, even of an alignment that every block has: 96 bytes take a block of 112, 320 one of 384, a buffer of 8 KiB one of 10,
//! and it takes the longer way for nearly each. Rust's own default asks `malloc`, which has blocks as long as they have to be.

use std::ffi::c_void;

/// Holds mimalloc to what is linked, and with it its `malloc`: linkers leave out what nobody names.
#[used]
static LINKED: unsafe extern "C" fn(*mut c_void) = libmimalloc_sys::mi_free;

#[cfg(test)]
mod tests {
    /// From block to block of this length, in bytes: the most frequent distance.
    fn pitch<const BYTES: usize>() -> usize {
        let blocks: Vec<Box<[u8; BYTES]>> = (0..2_000).map(|nth| Box::new([nth as u8; BYTES])).collect();
        let mut starts: Vec<usize> = blocks.iter().map(|block| block.as_ptr().addr()).collect();
        starts.sort_unstable();
        let mut distances: Vec<usize> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        distances.sort_unstable();
        distances[distances.len() / 2]
    }

    #[test]
    fn a_block_is_as_long_as_it_has_to_be() {
        assert_eq!(pitch::<96>(), 96);
        assert_eq!(pitch::<320>(), 320);
        assert_eq!(pitch::<640>(), 640);
        assert_eq!(pitch::<8_192>(), 8_192);
    }
}
