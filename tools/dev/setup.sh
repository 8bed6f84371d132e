# shellcheck shell=bash
# What a machine must have: system packages (tools/apt*.txt) and a virtual environment.

packages_of() {
  sed -e 's/#.*//' "$@" | tr -s '[:space:]' '\n' | sed '/^$/d' | sort -u
}

# The packages of the given lists that are not installed. python3-venv counts as missing when only
# another Python has one, so the test is dpkg's own.
missing_packages() {
  local wanted installed
  wanted=$(packages_of "$@")
  # shellcheck disable=SC2086  # one package per word
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^ii  *//p' | sort -u || true)
  comm -23 <(echo "$wanted") <(echo "$installed")
}

# Sets AS_ROOT to the words that make a command run as root, or exits 3 with the command an
# administrator must run.
find_root() {
  local packages=$1
  AS_ROOT=()
  if ((EUID == 0)); then return; fi
  if command -v sudo >/dev/null; then
    AS_ROOT=(sudo)
    if sudo -n true 2>/dev/null; then return; fi
    if [[ -t 0 && -t 1 ]]; then
      echo "System packages are missing; sudo may ask for your password."
      if sudo -v; then return; fi
    fi
  fi
  echo "dev: system packages are missing and this user cannot install them." >&2
  echo "An administrator must run this one command; then run ./dev again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends ${packages//$'\n'/ }" >&2
  exit 3
}

apt_install() {
  local options=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" update &&
    "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y \
      --no-install-recommends "$@"
}

# ensure_system LIST...: one step. Installs the packages of the lists that are missing.
ensure_system() {
  local missing
  if ! command -v dpkg-query >/dev/null; then
    step_done "system packages: not a Debian or Ubuntu; install what $* name by hand"
    return
  fi
  missing=$(missing_packages "$@")
  if [[ -z $missing ]]; then
    step_done "system packages: all there"
    return
  fi
  find_root "$missing"
  # shellcheck disable=SC2086  # one package per word
  step "installing $(wc -w <<<"$missing") system packages" apt apt_install $missing
}

torch_spec() { echo "${DEV_TORCH_SPEC:-torch==2.13.0}"; }

# --no-compile: of the thousands of files that torch and others bring, Python compiles the few that
# are imported when they are; to compile them all takes longer than to download them.
pip_quiet() {
  "$VENV/bin/python" -m pip install --disable-pip-version-check --no-compile "$@"
}

hash_of() { sha256sum | cut -c1-16; }

# Whether the virtual environment has a whole pip: what installs it notes last that it has.
has_pip() {
  "$VENV/bin/python" -c 'if True:
    from importlib import metadata
    raise SystemExit(not metadata.distribution("pip").read_text("INSTALLER"))' 2>/dev/null
}

# make_venv: makes it, or again what an interruption has left unfinished.
make_venv() {
  if has_pip; then return; fi
  rm -rf "$VENV"/lib/python*/site-packages/pip{,-*.dist-info}
  "${DEV_PYTHON:-python3}" -m venv "$VENV"
}

install_lint_needs() { make_venv && pip_quiet -r tools/requirements-lint.txt; }

# The index to take torch from, or nothing: pip's own. The build on PyPI brings several GB of CUDA;
# but where somebody has told pip its places, these count.
torch_index() {
  local settings
  if [[ -n ${DEV_TORCH_INDEX:-} ]]; then
    echo "$DEV_TORCH_INDEX"
    return
  fi
  settings=$("$VENV/bin/python" -m pip config list) || return
  if ! grep -qE '\.(index-url|extra-index-url|find-links|no-index)=' <<<"$settings"; then
    echo https://download.pytorch.org/whl/cpu
  fi
}

# answers INDEX: whether pip can reach it, with its settings (proxy, certificates).
answers() {
  "$VENV/bin/python" -m pip index versions torch --index-url "$1" --retries 1 --timeout 10 \
    >/dev/null 2>&1
}

# The same, but where only PyPI can be reached, the large build is better than none.
reachable_torch_index() {
  local index
  index=$(torch_index) || return
  if [[ -n ${DEV_TORCH_INDEX:-} ]] || { [[ -n $index ]] && answers "$index"; }; then
    echo "$index"
  fi
}

install_needs() {
  local index
  make_venv && index=$(reachable_torch_index) || return
  pip_quiet ${index:+--index-url "$index"} "$(torch_spec)" &&
    pip_quiet -r tools/requirements.txt "$(torch_spec)"
}

# once STAMP KEY TEXT LOG COMMAND...: one step; runs the command unless the stamp holds the key.
# Waits for whoever else is at the same step: another ./dev, or what installs ahead (lanes.sh).
once() {
  local stamp=$1 key=$2 text=$3 lock status=0
  shift 2
  exec {lock}>"$LOGS/$2.lock"
  if ! flock --nonblock "$lock"; then
    printf '%s: in the making, waiting ... ' "$text"
    flock "$lock"
    echo
  fi
  if [[ -f $stamp && $(<"$stamp") == "$key" ]]; then
    step_done "$text: up to date"
  else
    rm -f "$stamp"
    { step "$@" && echo "$key" >"$stamp"; } || status=$?
  fi
  exec {lock}>&-
  return "$status"
}

# ensure_lint_venv: one step; the virtual environment with the checkers.
ensure_lint_venv() {
  once "$VENV/stamp-lint" "$(hash_of <tools/requirements-lint.txt)" \
    "Python checkers" venv-lint install_lint_needs
}

# ensure_venv: one step; the virtual environment with torch and all Python needs.
ensure_venv() {
  local key
  key=$({ cat tools/requirements.txt && torch_spec && echo "${DEV_TORCH_INDEX:-}"; } | hash_of)
  once "$VENV/stamp-needs" "$key" "Python packages and torch" venv install_needs
}

# Everything that ends up in the wheel; of an unpacked archive, which has no git, all that is there.
wheel_sources() {
  local places=(pyproject.toml CMakeLists.txt cmake include src apps python docs)
  if [[ -e .git ]]; then
    git ls-files -co --exclude-standard -- "${places[@]}"
  else
    find "${places[@]}" -type f ! -path '*/__pycache__/*'
  fi
}

wheel_key() {
  local file
  wheel_sources | sort | while IFS= read -r file; do
    if [[ -f $file ]]; then sha256sum -- "$file"; fi
  done | hash_of
}

# The flags are those of the main build, so ccache answers for what that has compiled.
build_wheel() {
  rm -rf "$WHEELS"
  "$VENV/bin/python" -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$WHEELS" --config-settings=build-dir=build/wheel \
    --config-settings=cmake.build-type=RelWithDebInfo \
    --config-settings=cmake.define.CMAKE_CXX_COMPILER=g++ .
}

# install_wheel PYTHON. The original has the same files under its own name: a file must not have two
# owners.
install_wheel() {
  "$1" -m pip uninstall --disable-pip-version-check --yes byteps || return
  "$1" -m pip install --disable-pip-version-check --no-compile --no-deps --force-reinstall \
    "$WHEELS"/byteps_cpp-*.whl
}

build_and_install_wheel() { build_wheel && install_wheel "$VENV/bin/python"; }

# ensure_wheel: one step; byteps itself, built from this checkout, in the virtual environment.
ensure_wheel() {
  local key
  key=$(wheel_key) || die "the files of the wheel cannot be listed"
  if [[ ! -d $WHEELS ]]; then rm -f "$VENV/stamp-byteps"; fi
  once "$VENV/stamp-byteps" "$key" "byteps in .venv" wheel build_and_install_wheel
}
