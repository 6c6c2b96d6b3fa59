//! The memory of whatever this crate is part of: mimalloc, in place of the `malloc` of the C library.
//!
//! What a stage keeps is some ten thousand small records, made between buffers that come and go. glibc's own allocator keeps much of what
//! is free between them, and spends a tenth of a stage's processor time at rest; musl's, in images, has one lock for all threads. Pages
//! are small ones (the feature `no_thp`): huge ones double what a stage of 5,000 nodes keeps resident.
//!
//! As a `#[global_allocator]` it would be asked for each block with its alignment (`mi_malloc_aligned`). Of a length that is no power of
//! two it then makes room for what may be lost to that, even if every block has the alignment of a word: ten words take a block of
//! twelve, 40 of 48, 80 of 96. Rust's own default asks `malloc` for these, which has blocks as long as they have to be.

use std::ffi::c_void;

/// Holds mimalloc to what is linked, and with it its `malloc`: linkers leave out what nobody names.
#[used]
static LINKED: unsafe extern "C" fn(*mut c_void) = libmimalloc_sys::mi_free;

#[cfg(test)]
mod tests {
    /// From block to block of so many words, in bytes: the most frequent distance.
    fn pitch<const WORDS: usize>() -> usize {
        let blocks: Vec<Box<[u64; WORDS]>> = (0..2_000).map(|nth| Box::new([nth; WORDS])).collect();
        let mut starts: Vec<usize> = blocks.iter().map(|block| block.as_ptr().addr()).collect();
        starts.sort_unstable();
        let mut distances: Vec<usize> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        distances.sort_unstable();
        distances[distances.len() / 2]
    }

    #[test]
    fn a_block_is_as_long_as_it_has_to_be() {
        assert_eq!(pitch::<10>(), 80);
        assert_eq!(pitch::<12>(), 96);
        assert_eq!(pitch::<40>(), 320);
        assert_eq!(pitch::<80>(), 640);
        assert_eq!(pitch::<1_024>(), 8_192);
    }
}
