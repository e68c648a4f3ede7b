#!/usr/bin/env bash
# Builds the fuzz targets once, then runs each for a while. See README.md.
#
#   fuzz/run.sh [seconds_per_target=30] [target…]      0 seconds: only the committed corpus
#   fuzz/run.sh --build-only
#
# Needs a C++ compiler and the pinned stable toolchain; neither nightly nor cargo-fuzz.
set -euo pipefail

only_builds=
if [ "${1:-}" = --build-only ]; then
    only_builds=1
    shift
fi
seconds=${1:-30}
[ $# -eq 0 ] || shift
if ! [[ $seconds =~ ^[0-9]+$ ]]; then
    echo "usage: $0 [seconds_per_target] [target...]" >&2
    exit 2
fi

fuzz=$(cd "$(dirname "$0")" && pwd)
target_dir=${CARGO_TARGET_DIR:-$fuzz/target}
mkdir -p "$target_dir"
target_dir=$(cd "$target_dir" && pwd)
cd "$fuzz"

known=()
for file in fuzz_targets/*.rs; do
    known+=("$(basename "$file" .rs)")
done
targets=("$@")
[ $# -gt 0 ] || targets=("${known[@]}")
bins=()
for target in "${targets[@]}"; do
    if [ ! -f "fuzz_targets/$target.rs" ]; then
        echo "no target '$target'; there are: ${known[*]}" >&2
        exit 2
    fi
    bins+=(--bin "$target")
done

# What cargo-fuzz passes, without a sanitizer: those need nightly, and find little in safe code.
# `--target` keeps the flags away from build scripts and proc macros, which could not link with them.
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module"
flags+=" -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags+=" -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
env -u CARGO_ENCODED_RUSTFLAGS RUSTFLAGS="$flags" CARGO_TARGET_DIR="$target_dir" \
    cargo build --release --locked --target "$host" "${bins[@]}"
[ -z "$only_builds" ] || exit 0

# Runs one target and prints how it went; 1 if something was found.
run_target() {
    local target=$1
    local bin seeds found log max_len amount status artifact
    bin=$target_dir/$host/release/$target
    seeds=corpus/$target
    found=$target_dir/corpus/$target # inputs found here stay for the next run, outside of git
    log=$target_dir/$target.log
    mkdir -p "$seeds" "$found" "artifacts/$target"
    max_len=$(sed -n 's|^// max_len: ||p' "fuzz_targets/$target.rs")
    if [ "$seconds" -eq 0 ]; then amount=-runs=0; else amount=-max_total_time=$seconds; fi
    touch "$target_dir/$target.started"

    echo "== $target: ${seconds}s from $(find "$seeds" -type f | wc -l) seeds"
    status=0
    # Wall-clock seconds: on a busy machine the process mostly waits for a core.
    "$bin" "$amount" -max_len="${max_len:-4096}" -timeout=120 -rss_limit_mb=1024 -malloc_limit_mb=256 \
        -use_value_profile=1 -print_final_stats=1 -artifact_prefix="artifacts/$target/" \
        "$found" "$seeds" >"$log" 2>&1 || status=$?
    # Without counters every input is boring and nothing is ever found: that must not look like success.
    if ! grep -q 'INFO: Loaded 1 modules .*inline 8-bit counters' "$log"; then
        echo "the build is not instrumented" >>"$log"
        status=1
    fi
    if [ "$status" -eq 0 ]; then
        grep -E 'DONE|stat::number_of_executed_units|stat::peak_rss_mb' "$log" || tail -n 3 "$log"
        return 0
    fi

    tail -n 60 "$log"
    while read -r artifact; do
        echo "-- reproduce: fuzz/run.sh 0 $target; (cd fuzz && $bin $artifact)"
        echo "-- shorten:   (cd fuzz && $bin -minimize_crash=1 -max_total_time=60 $artifact)"
        echo "-- from another machine, first: base64 -d > fuzz/$artifact <<<$(base64 -w0 "$artifact")"
    done < <(find "artifacts/$target" -type f -newer "$target_dir/$target.started")
    return 1
}

# As many at a time as there are cores. All run for the same time, so a batch ends together.
cores=$(getconf _NPROCESSORS_ONLN)
failed=()
for ((first = 0; first < ${#targets[@]}; first += cores)); do
    batch=("${targets[@]:first:cores}")
    pids=()
    for target in "${batch[@]}"; do
        run_target "$target" >"$target_dir/$target.report" 2>&1 &
        pids+=($!)
    done
    for at in "${!batch[@]}"; do
        wait "${pids[at]}" || failed+=("${batch[at]}")
        cat "$target_dir/${batch[at]}.report"
    done
done

if [ ${#failed[@]} -gt 0 ]; then
    echo "findings in: ${failed[*]}"
    exit 1
fi
