//! Memory: the limit and the use of memory, as the system reports them.
//!
//! Owns        reading cgroups (both versions), the machine's own count, and this process's resident memory.
//! Doors       `MemoryReader::read`, every few seconds.
//! Invariants  the tightest limit counts: the reader checks the cgroup at every level, and the machine. Caches of files
//!             do not count as used, because the kernel drops them when memory is needed.
//! Not here    reactions to it: `guildhall-memory-budget`.

use std::{fs, io, path::PathBuf};

/// Source of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A container or service (cgroup version 2).
    CgroupV2,
    /// A container or service (cgroup version 1).
    CgroupV1,
    /// The machine's memory.
    Machine,
    /// `codec.memory_bytes_max`, for this process alone.
    Configured,
}

/// Memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The limit of memory.
    pub limit_bytes: u64,
    /// Memory in use by all processes under the limit.
    pub used_bytes: u64,
    /// Memory in use by this process.
    pub process_bytes: u64,
    /// Source of the limit.
    pub bound: Bound,
}

impl Memory {
    /// Bytes below the limit.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// Reads memory.
#[derive(Clone, Debug)]
pub struct MemoryReader {
    /// `/`, except in tests.
    root: PathBuf,
    /// For this process alone, as configured.
    bytes_max: Option<u64>,
}

impl MemoryReader {
    /// Reads this system's. With `bytes_max` this process has no more than that.
    #[must_use]
    pub fn new(bytes_max: Option<u64>) -> Self {
        Self { root: PathBuf::from("/"), bytes_max }
    }

    /// Memory under the tightest limit: the one with the least free memory.
    ///
    /// # Errors
    /// If `/proc` does not exist or cannot be read.
    pub fn read(&self) -> io::Result<Memory> {
        let process_bytes = self.process_bytes()?;
        let bounds = [self.cgroup_v2(), self.cgroup_v1(), vec![self.machine()?]];
        let bounds =
            bounds.into_iter().flatten().chain(self.bytes_max.map(|max| (Bound::Configured, max, process_bytes)));
        let memories = bounds.map(|(bound, limit_bytes, used_bytes)| Memory {
            limit_bytes,
            // This process is one of those under the limit.
            used_bytes: used_bytes.max(process_bytes),
            process_bytes,
            bound,
        });
        memories.min_by_key(Memory::free_bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn text(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.root.join(path))
    }

    fn process_bytes(&self) -> io::Result<u64> {
        kib_line(&self.text("proc/self/status")?, "VmRSS:").ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn machine(&self) -> io::Result<(Bound, u64, u64)> {
        let text = self.text("proc/meminfo")?;
        let (total, available) = (kib_line(&text, "MemTotal:"), kib_line(&text, "MemAvailable:"));
        let (Some(total), Some(available)) = (total, available) else { return Err(io::ErrorKind::InvalidData.into()) };
        Ok((Bound::Machine, total, total.saturating_sub(available)))
    }

    /// Where this process is in a hierarchy: from `/proc/self/cgroup`, and every level above, the root included.
    fn levels(&self, is_hierarchy: impl Fn(&str) -> bool) -> Vec<String> {
        let Ok(text) = self.text("proc/self/cgroup") else { return Vec::new() };
        let path = text.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, path) = line.split_once(':')?;
            is_hierarchy(controllers).then_some(path)
        });
        let Some(path) = path else { return Vec::new() };
        // A namespace may show a path that does not exist or leads out of it; the root always exists.
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != "..").collect();
        (0..=names.len()).rev().map(|depth| names[..depth].join("/")).collect()
    }

    fn cgroup_v2(&self) -> Vec<(Bound, u64, u64)> {
        let read = |level: String| {
            let file = |name: &str| self.text(&format!("sys/fs/cgroup/{level}/{name}")).ok();
            let limit = file("memory.max")?.trim().parse().ok()?;
            let current: u64 = file("memory.current")?.trim().parse().ok()?;
            let caches = file_caches(&file("memory.stat")?, "");
            Some((Bound::CgroupV2, limit, current.saturating_sub(caches)))
        };
        self.levels(str::is_empty).into_iter().filter_map(read).collect()
    }

    fn cgroup_v1(&self) -> Vec<(Bound, u64, u64)> {
        let read = |level: String| {
            let file = |name: &str| self.text(&format!("sys/fs/cgroup/memory/{level}/{name}")).ok();
            let limit = file("memory.limit_in_bytes")?.trim().parse().ok()?;
            let usage: u64 = file("memory.usage_in_bytes")?.trim().parse().ok()?;
            let caches = file_caches(&file("memory.stat")?, "total_");
            Some((Bound::CgroupV1, limit, usage.saturating_sub(caches)))
        };
        let is_memory = |controllers: &str| controllers.split(',').any(|controller| controller == "memory");
        self.levels(is_memory).into_iter().filter_map(read).collect()
    }
}

/// Resident bytes of mapped files: the program and its libraries. None where the system does not report it.
#[must_use]
pub fn mapped_file_bytes() -> Option<u64> {
    kib_line(&fs::read_to_string("/proc/self/status").ok()?, "RssFile:")
}

/// Bytes of file caches, without files that exist only in memory.
fn file_caches(stat: &str, prefix: &str) -> u64 {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(prefix)?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    value("inactive_file") + value("active_file")
}

fn kib_line(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A system made of these files.
    fn system(files: &[(&str, &str)], bytes_max: Option<u64>) -> (tempfile::TempDir, MemoryReader) {
        let dir = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal: 8192000 kB\nMemFree: 1 kB\nMemAvailable: 6144000 kB\n");
        let status = ("proc/self/status", "Name:\tguildhall\nVmRSS:\t  102400 kB\n");
        for (path, text) in [meminfo, status].iter().chain(files) {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let reader = MemoryReader { root: dir.path().to_owned(), bytes_max };
        (dir, reader)
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], bytes_max: Option<u64>, bound: Bound, limit_mib: u64, used_mib: u64) {
        let (_dir, reader) = system(files, bytes_max);
        let memory = reader.read().unwrap();
        assert_eq!(memory.process_bytes, 100 * MIB);
        assert_eq!((memory.bound, memory.limit_bytes / MIB, memory.used_bytes / MIB), (bound, limit_mib, used_mib));
    }

    #[test]
    fn without_a_container_it_is_the_machine_s() {
        check(&[], None, Bound::Machine, 8_000, 2_000);
        // No limit there.
        let root = ("sys/fs/cgroup/a/memory.max", "max\n");
        check(&[("proc/self/cgroup", "0::/a\n"), root], None, Bound::Machine, 8_000, 2_000);
        check(&[("proc/self/cgroup", "nonsense\n0:\n")], None, Bound::Machine, 8_000, 2_000);
    }

    #[test]
    fn a_container_s_without_its_file_caches() {
        let max = (1_000 * MIB).to_string();
        let current = (800 * MIB).to_string();
        let stat = format!("anon 5\nfile 9\ninactive_file {}\nactive_file {}\n", 200 * MIB, 100 * MIB);
        let at = |dir: &str| {
            [("memory.max", max.clone()), ("memory.current", current.clone()), ("memory.stat", stat.clone())]
                .map(|(name, text)| (format!("sys/fs/cgroup{dir}/{name}"), text))
        };
        let check_at = |dir: &str, cgroup: &str| {
            let files = at(dir);
            let mut all = vec![("proc/self/cgroup", cgroup)];
            all.extend(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
            check(&all, None, Bound::CgroupV2, 1_000, 500);
        };
        check_at("/system.slice/guildhall.service", "0::/system.slice/guildhall.service\n");
        // The bound of one above holds too.
        check_at("/system.slice", "0::/system.slice/guildhall.service\n");
        // A namespace hides the position of the cgroup.
        check_at("", "0::/\n");
        check_at("", "0::/../../elsewhere\n");
    }

    #[test]
    fn a_container_s_of_version_1() {
        let limit = (512 * MIB).to_string();
        let usage = (400 * MIB).to_string();
        let stat = format!("inactive_file 7\ntotal_inactive_file {}\ntotal_active_file {}\n", 50 * MIB, 10 * MIB);
        let files = [
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n0::/\n"),
            // The path is the host's; inside the container it is the root.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", &limit),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", &usage),
            ("sys/fs/cgroup/memory/memory.stat", &stat),
        ];
        check(&files, None, Bound::CgroupV1, 512, 340);
        // "Unlimited" is a number there.
        let mut files = files;
        files[1].1 = "9223372036854771712\n";
        check(&files, None, Bound::Machine, 8_000, 2_000);
    }

    #[test]
    fn a_configured_bound_is_this_process_s_alone() {
        check(&[], Some(400 * MIB), Bound::Configured, 400, 100);
        // A wider one does not widen the machine.
        check(&[], Some(100_000 * MIB), Bound::Machine, 8_000, 2_000);
    }

    #[test]
    fn this_system_can_be_read() {
        if !std::path::Path::new("/proc/meminfo").exists() {
            return;
        }
        let memory = MemoryReader::new(None).read().unwrap();
        assert!(memory.limit_bytes > 64 * MIB && memory.process_bytes > MIB);
        assert!(memory.used_bytes >= memory.process_bytes);
        let dir = tempfile::tempdir().unwrap();
        assert!(MemoryReader { root: dir.path().to_owned(), bytes_max: None }.read().is_err());
    }
}
