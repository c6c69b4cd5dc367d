#!/bin/bash
# What stories of waste on a GPU look like after their cure, and one more story, before and after; a GPU needed.
#
#   OUT=folder bash sample_runs/gpu_after.sh
#
# OUT/STORY/run_after.tar.xz (of peak_of_recordings run.tar.xz and the program too) belong into sample_runs/stories;
# OUT/turns.jsonl has eager, compiled and cured in turns, for docs/stories.md.
set -u
cd "$(dirname "$0")/.."
out=${OUT:?a folder} work=$(mktemp -d) python=${PYTHON:-python3}
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}

keep() { # PROGRAM ARCHIVE [WORD]
    local name run
    name=$(basename "$1" .py) && run=$work/$2/$name
    $python -m inspector.cli capture --baseline -o "$run" -- "$python" "$1" ${3:-} || return
    $python -m inspector.cli replay "$run" --rounds 10
    cp "$1" "$run/" && mkdir -p "$out/$name"
    $python -m inspector.cli pack "$run" --force -o "$out/$name/$2.tar.xz"
    $python -m inspector.cli explain "$out/$name/$2.tar.xz"
}

recordings=benchmarks/programs/waste_gpu/too_few_programs/peak_of_recordings.py
mkdir -p "$out/peak_of_recordings" && cp $recordings "$out/peak_of_recordings/"
keep $recordings run
keep $recordings run_after after
for story in decoder_upsample bicubic_of_mish; do
    keep sample_runs/stories/$story/$story.py run_after after
done
$python benchmarks/waste.py "$out/turns.jsonl" --programs sample_runs/stories benchmarks/programs/waste_gpu \
    --only decoder_upsample,bicubic_of_mish,peak_of_recordings --jobs 1
