//! A day of connects and disconnects, against the system's own count of this process's memory: a process of its own, so
//! that nothing else grows in it.
#![cfg(all(feature = "stream", target_os = "linux"))]

use guildhall_codec::{ContextParams, ContextPool, StreamCompressor};
use guildhall_stdx::Rng;
use std::{f64::consts::TAU, fs};

/// Connections at the peak. At night there are a fifth of them.
const PEAK: f64 = 420.0;
/// Steps of a day: three minutes each.
const STEPS: usize = 480;

/// Resident bytes of this process.
#[expect(clippy::disallowed_methods, reason = "only the kernel knows what is resident")]
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn wanted(step: usize) -> usize {
    let hour_angle = step as f64 / STEPS as f64 * TAU;
    (PEAK * (0.6 - 0.4 * hour_angle.cos())) as usize
}

#[test]
fn resident_memory_is_what_is_accounted_for() {
    let contexts = ContextPool::new(ContextParams::default()).unwrap();
    let mut rng = Rng::new(2026);
    let mut out = Vec::with_capacity(1 << 20);
    let text: Vec<u8> = (0..200_000).map(|_| b"abcdefghij klmnop"[rng.below(17) as usize]).collect();
    let mut living: Vec<StreamCompressor> = Vec::with_capacity(PEAK as usize * 2);
    let before = resident();
    let (mut opened, mut checked, mut mapped_most, mut off_most) = (0, 0, 0.0_f64, 0.0_f64);
    for step in 0..STEPS {
        // Upgrades come and go with the hours as well.
        contexts.gate().set(if step % 160 < 80 { 600 } else { 0 }, u64::MAX);
        // Some leave at any time; more when the evening is over.
        for _ in 0..living.len() / 25 {
            living.swap_remove(rng.below(living.len() as u64) as usize);
        }
        while living.len() > wanted(step) {
            living.swap_remove(rng.below(living.len() as u64) as usize);
        }
        while living.len() < wanted(step) {
            let stream = if rng.chance(0.3) { contexts.zlib() } else { contexts.zstd() };
            living.push(stream);
            opened += 1;
        }
        // Each stream gets a few bytes, so that new ones have their context: most are young and have sent less
        // than their window.
        for stream in &mut living {
            let start = rng.below(text.len() as u64 - 4_000) as usize;
            let bytes = if stream.memory_bytes() == 0 { 4_000 } else { 200 };
            out.clear();
            stream.compress(&[&text[start..start + bytes]], &mut out).unwrap();
        }
        let stats = contexts.stats();
        let pools = [stats.zlib, stats.zstd, stats.zstd_upgraded];
        assert_eq!(pools.iter().map(|pool| pool.slots_used).sum::<u64>(), living.len() as u64);
        let mapped = pools.iter().map(|pool| pool.mapped_bytes).sum::<u64>();
        mapped_most = mapped_most.max(mapped as f64 / stats.resident_bytes as f64);
        if step % 20 == 0 || step + 1 == STEPS {
            let (grown, accounted) = (resident().saturating_sub(before) as f64, stats.resident_bytes as f64);
            let off = grown / accounted - 1.0;
            assert!(off.abs() <= 0.05, "step {step}: {grown} resident, {accounted} accounted");
            off_most = off_most.max(off.abs());
            checked += 1;
        }
    }
    living.clear();
    let left = resident().saturating_sub(before);
    println!("{opened} opened; off by {off_most:.4} at most; {mapped_most:.2} mapped per resident byte; {left} left");
    assert!(opened > 4_000 && checked == 25);
    let stats = contexts.stats();
    assert_eq!((stats.resident_bytes, stats.zstd.mapped_bytes, stats.zlib.mapped_bytes), (0, 0, 0));
    assert!(left < 4 << 20, "{left} bytes are left");
}
