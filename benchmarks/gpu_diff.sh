#!/bin/bash
# The parts of diff and blame that need GPUs; small files go to the folder OUT of the environment.
#
#   bash benchmarks/gpu_diff.sh ledger [MINUTES [GPUS]]   the timed pairs: a GPU and at most 8 cores to a job, and two
#                                                         jobs of a CPU's on what cores are left; nothing else beside
#   bash benchmarks/gpu_diff.sh blame                     planted causes on 2 GPUs and 22 cores; pairs to match on 10
#
# OUT/*.txt hold what was found, OUT/*.tar.xz.* the captures without their caches (cat, then untar).
set -u
cd "$(dirname "$0")/.."
out=${OUT:?a folder} work=$(mktemp -d) python=${PYTHON:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1

keep() { # NAME FOLDER
    tar -C "$2" --exclude=cache --exclude='env_*' --exclude='*.so' --exclude='*.cubin' -cf - . |
        xz -T0 -3 | split -b 15m - "$out/$1.tar.xz."
}

case ${1:?ledger or blame} in
ledger)
    limit=${2:-8.3} gpus=${3:-1}
    mapfile -t cores < <("$python" -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
    own=$((8 * gpus < ${#cores[@]} - 2 ? 8 * gpus : ${#cores[@]} - 2))
    list() { local IFS=,; echo "$*"; }
    taskset -c "$(list "${cores[@]:0:own}")" "$python" benchmarks/diff_ledger.py "$work/gpu" --jobs "$gpus" \
        --gpus "$gpus" --minutes "$limit" >"$out/ledger_gpu.txt" 2>&1 &
    taskset -c "$(list "${cores[@]:own}")" "$python" benchmarks/diff_ledger.py "$work/cpu" --cpu \
        --jobs $((${#cores[@]} - own < 8 ? 1 : 2)) --minutes "$limit" >"$out/ledger_cpu.txt" 2>&1 &
    wait
    keep ledger_gpu "$work/gpu"
    keep ledger_cpu "$work/cpu"
    cat "$out"/ledger_*.txt
    ;;
blame)
    cases="gpu_addmm gpu_post_pass gpu_joint_pass gpu_own_pattern gpu_lowering_erf gpu_lowering_atan2 gpu_dropout
        gpu_slow_pass gpu_null_error gpu_null_exit gpu_null_memory"
    # shellcheck disable=SC2086
    timeout 500 "$python" benchmarks/blame.py "$work/blame" $cases --gpus 2 \
        --cores 0-1,2-3,4-5,6-7,8-9,10-11,12-13,14-15,16-17,18-19,20-21 >"$out/blame_gpu.txt" 2>&1 &
    timeout 500 taskset -c 22-31 "$python" benchmarks/diff.py "$work/repeats" --repeats --capture --jobs 10 --wrong \
        >"$out/repeats_gpu.txt" 2>&1 &
    wait
    keep repeats_gpu "$work/repeats"
    cat "$out"/*.txt
    ;;
*)
    echo "ledger or blame, not $1" >&2
    exit 2
    ;;
esac
