# Sourced by scripts/demo, scripts/test and .ci/run.
# One environment in .venv, the embedding model in build/minilm; both are made once and reused.
# PYTHON chooses the interpreter (3.11 or newer); it matters only when .venv is made.

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV="$ROOT/.venv"
MODEL="$ROOT/build/minilm"
PROGRAMS="$ROOT/build/programs"
export PATH="$PATH:$PROGRAMS/usr/sbin:$PROGRAMS/usr/bin"
cd -- "$ROOT"
# Without bytecode each process that a test starts would compile the package anew.
unset PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 || die "PYTHON=$PYTHON cannot be run."
        new_enough "$PYTHON" || die "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1); Python 3.11 or newer is needed."
        printf '%s\n' "$PYTHON"
        return
    fi
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "Python 3.11 or newer is needed and none was found (python3 is: $(python3 -V 2>&1 || true)). Set PYTHON=/path/to/python3.11 and run this again."
}

venv_python() {
    if [ -x "$VENV/bin/python" ]; then
        printf '%s\n' "$VENV/bin/python"
    else
        printf '%s\n' "$VENV/Scripts/python.exe"
    fi
}

# What the environment was made from: where it is, its Python, what it installs.
wanted() {
    printf '%s\n' "$ROOT"
    "$(venv_python)" -V 2>&1
    cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt"
}

# pip with the versions of constraints.txt: like -c, but also for the build requirements, for which
# the variable's name depends on pip's version. Bytecode is compiled at the first import.
constrained_pip() {
    PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
        "$PY" -m pip install --quiet --no-compile --disable-pip-version-check "$@"
}

# All that constraints.txt names, in two installations at once: one alone leaves a core idle. Fails
# where a package is not for this machine: the installation after them has its own.
install_pinned() {
    local half halves=() failed=0
    for half in 0 1; do
        grep -v '^#' constraints.txt | awk "NR % 2 == $half" >"$VENV/.pinned-$half"
        constrained_pip --no-deps --only-binary :all: -r "$VENV/.pinned-$half" >/dev/null 2>&1 &
        halves+=($!)
    done
    for half in "${halves[@]}"; do wait "$half" || failed=1; done
    return "$failed"
}

make_environment() {
    if ! new_enough "$(venv_python)"; then
        local base
        base=$(choose_python)
        say "Making .venv with $("$base" -V 2>&1) ..."
        rm -rf -- "$VENV"
        "$base" -m venv "$VENV" || {
            rm -rf -- "$VENV"
            die "$base cannot make a virtual environment. On Debian or Ubuntu: apt install python3-venv."
        }
    fi
    PY=$(venv_python)
    if [ "$(wanted)" != "$(cat "$VENV/.made-from" 2>/dev/null)" ]; then
        say "Installing what pyproject.toml asks for ..."
        local how=--use-pep517
        # What builds the package is among them; else pip would install it a second time.
        [ -e "$VENV/.made-from" ] || ! install_pinned || how=--no-build-isolation
        constrained_pip "$how" -e '.[dev]' || die "The installation failed; the reason is above."
        wanted >"$VENV/.made-from"
    fi
}

make_model() {
    [ -f "$MODEL/models--Qdrant--all-MiniLM-L6-v2-onnx/refs/main" ] \
        || say "Building the embedding model (once) ..."
    "$PY" scripts/build_model.py "$MODEL" >/dev/null || die "The embedding model could not be built."
}

# A browser for the tests of what a person sees; without one they are skipped, visibly.
# The headless shell needs half the processor time of a whole Chromium.
make_browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome-stable google-chrome; do
        command -v "$name" >/dev/null 2>&1 && return
    done
    "$PY" -c 'import os, playwright.sync_api as p
with p.sync_playwright() as r: raise SystemExit(not os.path.exists(r.chromium.executable_path))' \
        2>/dev/null && return
    say "Installing Chromium for the tests in a browser (once) ..."
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update >/dev/null 2>&1
        for name in chromium-headless-shell chromium; do
            apt-get install -y --no-install-recommends "$name" fonts-liberation \
                >/dev/null 2>&1 && return
        done
    elif timeout 300 "$PY" -m playwright install chromium >/dev/null 2>&1; then
        return
    fi
    say "There is no Chromium: tests/browser is skipped. As root: apt-get install chromium-headless-shell."
}

# The programs whose examples in deploy/ are tested, beside the system's own and never started as
# services. Without one its tests are skipped, visibly.
make_programs() {
    local name
    command -v apt-get >/dev/null 2>&1 || return 0
    for name in nginx caddy; do
        command -v "$name" >/dev/null 2>&1 && continue
        mkdir -p -- "$PROGRAMS"
        (cd -- "$PROGRAMS" && { apt-get download "$name" || { apt-get update && apt-get download "$name"; }; } \
            && dpkg -x "$name"_*.deb .) >/dev/null 2>&1 \
            || say "There is no $name: the tests of its example are skipped."
    done
}
