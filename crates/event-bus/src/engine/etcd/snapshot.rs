//! The state in pieces that fit into etcd, named by what they hold: a piece that did not change is not written again.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;

use super::machine::Machine;
use super::store as pb;
use crate::engine::Limits;
use crate::engine::memory::image::KeptKey;
use crate::wire;

/// Keys of one piece, about: a change of one key costs writing these again, and each piece costs a request.
const KEYS_PER_PIECE: usize = 256;
/// A piece is ended beyond this, whatever it holds; one key with its history adds at most a little over 1 MiB. etcd takes 1.5 MiB.
const PIECE_BYTES: usize = 256 * 1024;

/// A snapshot: what is written under `snapshot`, and its pieces by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pieces {
    pub(super) manifest: pb::Snapshot,
    pub(super) chunks: BTreeMap<String, Vec<u8>>,
}

/// Takes the state to pieces. Keys stay in the same piece as long as their number is about the same.
pub(super) fn take(machine: &Machine) -> Pieces {
    // As messages all keys together take several times what they take where they are kept.
    let mut slots: BTreeMap<u64, Vec<KeptKey<'_>>> = BTreeMap::new();
    let slot_count = (machine.memory.kept_keys().count() / KEYS_PER_PIECE).next_power_of_two() as u64;
    for key in machine.memory.kept_keys() {
        let slot = fnv(SLOT_BASIS, key.name().as_bytes()) % slot_count;
        slots.entry(slot).or_default().push(key);
    }
    let mut pieces = Pieces::default();
    for keys in slots.into_values() {
        let mut chunk = pb::Chunk::default();
        let mut bytes = 0;
        for key in keys.iter().map(KeptKey::save) {
            bytes += key.encoded_len();
            chunk.keys.push(key);
            if bytes >= PIECE_BYTES {
                pieces.add(std::mem::take(&mut chunk));
                bytes = 0;
            }
        }
        pieces.add(chunk);
    }
    let (mut chunk, mut bytes) = (pb::Chunk::default(), 0);
    for staged in machine.memory.save_staged() {
        bytes += staged.encoded_len();
        chunk.staged.push(staged);
        if bytes >= PIECE_BYTES {
            pieces.add(std::mem::take(&mut chunk));
            bytes = 0;
        }
    }
    pieces.add(chunk);
    pieces.manifest.state = Some(machine.save());
    pieces
}

/// The state that was taken to pieces.
///
/// # Errors
/// A piece is malformed.
pub(super) fn assemble(incarnation: String, limits: Limits, pieces: &Pieces) -> Result<Machine, wire::Error> {
    let state = pieces.manifest.state.clone().unwrap_or_default();
    let mut machine = Machine::restore(incarnation, limits, &state)?;
    let names: BTreeSet<&String> = pieces.manifest.chunks.iter().collect();
    for name in names {
        let bytes = pieces.chunks.get(name).ok_or_else(|| wire::Error::absent("chunk"))?;
        let chunk = pb::Chunk::decode(bytes.as_slice());
        let chunk = chunk.map_err(|error| wire::Error::new("chunk", error.to_string(), "what a replica of this format writes"))?;
        machine.memory.restore_chunk(chunk)?;
    }
    Ok(machine)
}

/// The position of the state whose manifest this is; 0: it has none.
pub(super) fn position(manifest: &pb::Snapshot) -> u64 {
    manifest.state.as_ref().map_or(0, |state| state.position)
}

// === impl Pieces ===

impl Pieces {
    fn add(&mut self, chunk: pb::Chunk) {
        if chunk.keys.is_empty() && chunk.staged.is_empty() {
            return;
        }
        let bytes = chunk.encode_to_vec();
        let name = digest(&bytes);
        self.manifest.bytes += bytes.len() as u64;
        self.manifest.chunks.push(name.clone());
        self.chunks.insert(name, bytes);
    }
}

pub(super) const SLOT_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const OTHER_BASIS: u64 = 0x6c62_272e_07bb_0142;

/// FNV-1a.
pub(super) fn fnv(basis: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(basis, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Two hashes and the length: it only has to tell accidents apart, for producers are trusted with far more than this.
fn digest(bytes: &[u8]) -> String {
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    format!(
        "{:016x}{:016x}{:x}",
        fnv(SLOT_BASIS, bytes),
        fnv(OTHER_BASIS, &reversed),
        bytes.len()
    )
}
