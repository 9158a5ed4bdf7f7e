# Sourced by run and full: a scratch folder, sections with their times, and the BLAS kernels.
# shellcheck shell=bash
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1 PIP_QUIET=2 PYTHONWARNINGS=
unset PYTHONPATH VIRTUAL_ENV OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS OMP_NUM_THREADS

scratch=$(mktemp -d)
started=$SECONDS
heading="" since=0

finish_section() {
    if [[ -n $heading ]]; then printf -- '-- %s: %d s\n' "$heading" $((SECONDS - since)); fi
}

section() {
    finish_section
    heading=$1 since=$SECONDS
    printf '\n== %s\n' "$heading"
}

# Run functions at the same time; what each prints is shown when it has ended.
side_by_side() {
    local part ids=() failed=0
    for part in "$@"; do
        (
            heading=""
            "$part"
            finish_section
        ) >"$scratch/$part.log" 2>&1 &
        ids+=("$!")
    done
    for part in "$@"; do
        heading=$part
        wait "${ids[0]}" || failed=1
        cat "$scratch/$part.log"
        if ((failed)); then return 1; fi
        ids=("${ids[@]:1}")
    done
}

on_exit() {
    local status=$? jobs
    jobs=$(jobs -p)
    # shellcheck disable=SC2086 # one argument per process
    if [[ -n $jobs ]]; then kill $jobs; fi
    rm -rf "$scratch"
    if ((status)); then
        printf '\nFAILED in "%s" after %d s\n' "$heading" $((SECONDS - started)) >&2
    fi
}
trap on_exit EXIT

# The kernel that OpenBLAS uses: the processor's own, or the one that OPENBLAS_CORETYPE names.
blas_kernel() {
    .venv/bin/python - <<'PYTHON'
import scipy.linalg
from threadpoolctl import threadpool_info

print({library.get("architecture") for library in threadpool_info()}.difference([None]).pop())
PYTHON
}

# pytest with the BLAS kernel $1 and $2 threads of BLAS; the other arguments are pytest's.
pytest_with_blas() {
    local kernel=$1 threads=$2
    shift 2
    if [[ $(OPENBLAS_CORETYPE=$kernel blas_kernel) != "$kernel" ]]; then
        echo "OpenBLAS has no kernel $kernel on this processor" >&2
        return 1
    fi
    env OPENBLAS_CORETYPE="$kernel" OPENBLAS_NUM_THREADS="$threads" OMP_NUM_THREADS="$threads" \
        .venv/bin/pytest "$@"
}
