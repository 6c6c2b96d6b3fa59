//! Pages of files that a process has in memory, as Linux tells them: of its program and libraries, as far as it used them.
//!
//! Several processes of one program have the same pages, and each is told all of them as its memory (`VmRSS`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// `PM_PRESENT` of an entry of `/proc/<pid>/pagemap`, Documentation/admin-guide/mm/pagemap.rst: the page is in memory.
const IS_PRESENT: u64 = 1 << 63;
/// `PM_FILE` of it: the page is the file's, or shared memory. What a process changed is its own, and has it not.
const IS_OF_FILE: u64 = 1 << 61;
/// Bytes of an entry.
const ENTRY: u64 = 8;

/// Pages of files that a process has in memory: which ones of each file.
#[derive(Debug, Default)]
pub struct FilePages(BTreeMap<FileId, BTreeSet<u64>>);

/// The device that a file is on, and its number there.
type FileId = (String, u64);

/// A file, or a part of it, that a process mapped.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    file: FileId,
    /// Addresses, in bytes.
    begin: u64,
    end: u64,
    /// Where in the file it begins, in bytes.
    offset: u64,
}

// === impl FilePages ===

impl FilePages {
    /// Of a process that runs.
    ///
    /// # Errors
    /// When there is none, or it is not allowed to be looked at.
    pub fn of(pid: u32) -> Result<Self, String> {
        let path = |file: &str| format!("/proc/{pid}/{file}");
        let (maps, pagemap) = (path("maps"), path("pagemap"));
        let failed = |path: &str, error: std::io::Error| format!("{path}: {error}");
        let text = fs::read_to_string(&maps).map_err(|error| failed(&maps, error))?;
        let entries = File::open(&pagemap).map_err(|error| failed(&pagemap, error))?;
        let size = page_size();
        let mut pages = Self::default();
        for mapping in text.lines().filter_map(Mapping::parse) {
            let count = mapping.end.saturating_sub(mapping.begin) / size;
            let mut read = vec![0; usize::try_from(count * ENTRY).unwrap_or_default()];
            entries
                .read_exact_at(&mut read, mapping.begin / size * ENTRY)
                .map_err(|error| failed(&pagemap, error))?;
            let entries = read
                .chunks_exact(8)
                .map(|entry| entry.try_into().map_or(0, u64::from_le_bytes));
            let present: Vec<u64> = mapping.present(entries, size).collect();
            pages.0.entry(mapping.file).or_default().extend(present);
        }
        Ok(pages)
    }

    /// MiB by which the sum of what these processes have is more than what they have together: each page counts once there.
    pub fn shared(processes: &[Self]) -> f64 {
        let mut together: BTreeMap<&FileId, BTreeSet<u64>> = BTreeMap::new();
        for (file, pages) in processes.iter().flat_map(|process| &process.0) {
            together.entry(file).or_default().extend(pages);
        }
        let sum: usize = processes
            .iter()
            .flat_map(|process| process.0.values())
            .map(BTreeSet::len)
            .sum();
        let together: usize = together.values().map(BTreeSet::len).sum();
        // Far below what a float holds exactly.
        #[allow(clippy::cast_precision_loss)]
        let bytes = ((sum - together) as u64 * page_size()) as f64;
        bytes / (1024.0 * 1024.0)
    }
}

// === impl Mapping ===

impl Mapping {
    /// A line of `/proc/<pid>/maps`, proc(5), if it is of a file.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (offset, device) = (hex(fields.nth(1)?)?, fields.next()?);
        let inode = fields.next()?.parse().ok().filter(|inode| *inode != 0)?;
        Some(Self {
            file: (device.to_owned(), inode),
            begin: hex(begin)?,
            end: hex(end)?,
            offset,
        })
    }

    /// Those pages of it that are the file's and in memory, by its entries in the page map.
    fn present(&self, entries: impl Iterator<Item = u64>, page_size: u64) -> impl Iterator<Item = u64> {
        let is_there = |entry: u64| entry & IS_PRESENT != 0 && entry & IS_OF_FILE != 0;
        let indices = (self.offset / page_size..).zip(entries);
        indices.filter(move |(_, entry)| is_there(*entry)).map(|(index, _)| index)
    }
}

fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_of_a_file_is_read_and_others_are_not() {
        let line = "55d0a000-55d0d000 r-xp 00002000 fe:01 131 /usr/bin/a program";
        let mapping = Mapping::parse(line).unwrap();
        let wanted = Mapping {
            file: ("fe:01".to_owned(), 131),
            begin: 0x55d0_a000,
            end: 0x55d0_d000,
            offset: 0x2000,
        };
        assert_eq!(mapping, wanted);
        let entries = [IS_PRESENT | IS_OF_FILE, IS_PRESENT, IS_PRESENT | IS_OF_FILE | 7];
        let present = mapping.present(entries.into_iter(), 4096).collect::<Vec<_>>();
        assert_eq!(present, [2, 4], "what was changed is not the file's");
        assert_eq!(Mapping::parse("7ffd1000-7ffd2000 rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(Mapping::parse("nonsense"), None);
    }

    #[test]
    fn a_page_that_two_processes_have_counts_once() {
        let pages = |files: &[(&str, &[u64])]| {
            let of = |(device, pages): &(&str, &[u64])| (((*device).to_owned(), 7), pages.iter().copied().collect());
            FilePages(files.iter().map(of).collect())
        };
        let processes = [
            pages(&[("a", &[1, 2])]),
            pages(&[("a", &[2, 3]), ("b", &[2])]),
            pages(&[("a", &[2])]),
        ];
        let mib = |pages: f64| pages * page_size_mib();
        assert!((FilePages::shared(&processes) - mib(2.0)).abs() < f64::EPSILON);
        assert!(FilePages::shared(&processes[..1]).abs() < f64::EPSILON);
    }

    #[allow(clippy::cast_precision_loss, reason = "a page is some kilobytes")]
    fn page_size_mib() -> f64 {
        page_size() as f64 / (1024.0 * 1024.0)
    }

    /// Linux tells how many there are, too: `RssFile` is inaccurate, proc(5), and what it tells of mappings is not.
    #[test]
    fn what_this_process_has_is_what_it_is_told_to_have() {
        let told = || {
            let mappings = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let bytes = |name: &str| {
                let line = mappings.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
            };
            bytes("Rss:") - bytes("Anonymous:")
        };
        let before = told();
        let pages = FilePages::of(std::process::id()).unwrap();
        let bytes = pages.0.values().map(BTreeSet::len).sum::<usize>() * usize::try_from(page_size()).unwrap();
        let after = told();
        // Other tests use more from one look to the next, and Linux takes some back when it needs memory; and what is mapped twice is
        // told twice there.
        let (least, most) = (before.min(after) * 3 / 4, before.max(after) * 5 / 4);
        assert!((least..=most).contains(&bytes), "{least} <= {bytes} <= {most}");
    }
}
