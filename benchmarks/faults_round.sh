#!/bin/bash
# A round of planted faults and of false alarms on a machine with a GPU, C++ and Triton natively side by side, in
# SECONDS_LEFT seconds: everything is captured, replayed with nothing planted, then with faults of fresh seeds, from SEED on.
#
#     OUT=folder SECONDS_LEFT=530 SEED=1001 bash benchmarks/faults_round.sh [NAME]
#
# SIDES=native leaves C++ out, SIDES=cpp the GPU.
# $OUT/NAME.txt has each part's sums as `benchmarks/faults.py` prints them, $OUT/NAME.jsonl.gz all rows.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
name=${1:-faults}
python=${PYTHON:-python3}
seed=${SEED:-1001}
kinds=${KINDS:-fourth}
others=${OTHERS:-fifth}
began=$(date +%s)
ends=$((began + ${SECONDS_LEFT:-530}))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$root FAULTS_CACHE=$work/cache OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 CUDA_VISIBLE_DEVICES=${GPU:-0}
mkdir -p "$OUT" "$work/logs"

left() { echo $((ends - $(date +%s) - ${1:-0})); }

names() {  # the programs of a file, in so many parts
    (cd benchmarks/programs && "$python" - "$1" "$2" <<'EOF'
import sys, small
kind, parts = sys.argv[1], int(sys.argv[2])
if kind == "small":
    names = [*small.small(), *small.values(), *small.nasty()]
elif kind == "small_third":
    import small_third
    names = [*small_third.third(), *small_third.CHANGING]
else:
    import small_fourth
    names = [*small_fourth.fourth()]
for part in range(parts):
    print(*names[part::parts])
EOF
    )
}

capture() {  # device, file, part, its programs
    timeout "$(left 60)" "$python" -m inspector capture -o "$work/$1-$2-$3" -- "$python" "benchmarks/programs/$2.py" "$1" ${4} \
        > "$work/logs/$1-$2-$3.log" 2>&1
}

captured() {  # all programs on a device
    for file in small:4 small_third:2 small_fourth:1; do
        part=0
        while read -r programs; do
            capture "$1" "${file%:*}" $part "$programs" &
            part=$((part + 1))
        done < <(names "${file%:*}" "${file#*:}")
    done
    wait
    {
        echo "$1: captured in $(($(date +%s) - began)) s"
        tail -q -n 1 "$work/logs/$1"-*.log
        grep -h failed "$work/logs/$1"-*.log
    } >> "$OUT/$name.txt"
}

plant() {  # part's name, kinds, most, seed, jobs, runs
    local what=$1 kinds=$2 most=$3 number=$4 processes=$5
    shift 5
    timeout $(($(left) - 4)) "$python" benchmarks/faults.py plant "$@" --kinds "$kinds" --most "$most" --seed "$number" -j "$processes" \
        --seconds $(($(left) - 22)) -o "$work/$what.jsonl" > "$work/$what.txt" 2>&1
}
alarms() {  # part's name, jobs, runs
    local what=$1 processes=$2
    shift 2
    timeout $(($(left) - 4)) "$python" benchmarks/faults.py alarms "$@" -j "$processes" --seconds $(($(left) - 22)) -o "$work/$what.jsonl" \
        > "$work/$what.txt" 2>&1
}

native() {
    captured cuda
    alarms alarms-native 2 "$work"/cuda-* &
    plant "native-$kinds" "$kinds" 3 $((seed + 2)) 2 "$work"/cuda-* &
    plant "native-$others" "$others" 3 $((seed + 3)) 2 "$work"/cuda-* &
    wait
}
cpp() {
    captured cpu
    alarms alarms-cpp 3 "$work"/cpu-* &
    plant "cpp-$kinds" "$kinds" 3 "$seed" 4 "$work"/cpu-* &
    plant "cpp-$others" "$others" 3 $((seed + 1)) 3 "$work"/cpu-* &
    wait
}
rm -f "$OUT/$name.txt"
for side in ${SIDES:-native cpp}; do $side & done
wait
for part in "$work"/*.jsonl; do
    part=${part%.jsonl}
    echo "=== $(basename "$part")"
    cat "$part.txt"
done >> "$OUT/$name.txt"
for part in "$work"/*.jsonl; do sed "s|^{|{\"part\": \"$(basename "$part" .jsonl)\", |" "$part"; done | gzip > "$OUT/$name.jsonl.gz"
echo "ended after $(($(date +%s) - began)) s" >> "$OUT/$name.txt"
