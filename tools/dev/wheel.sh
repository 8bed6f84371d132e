# shellcheck shell=bash
# `./dev wheel`: what is published. For each processor a wheel, and an archive of the servers out of
# the same wheel, all in dist/. docs/releasing.md says when.

readonly DIST="$REPO/dist"
readonly PYTHONS_WANTED="3.10 3.11 3.12 3.13 3.14"

install_release_needs() { make_venv && pip_quiet -r tools/requirements-wheel.txt; }

ensure_release_needs() {
  once "$VENV/stamp-release" "$(hash_of <tools/requirements-wheel.txt)" \
    "Python packages for the wheel" venv-release install_release_needs
}

# raw_wheel PROCESSOR: the flags are those of the build that the tests run; compiler, C library and
# C++ library are others (tools/dev/portable.sh), and debugging symbols are left out.
raw_wheel() {
  local processor=$1
  rm -rf "$PORTABLE_ROOT/$1/raw"
  PORTABLE="$PORTABLE_ROOT/$processor" _PYTHON_HOST_PLATFORM="linux-$processor" \
    nice "$VENV/bin/python" -m pip wheel --disable-pip-version-check --no-build-isolation \
    --no-deps --wheel-dir "$PORTABLE_ROOT/$1/raw" \
    --config-settings=build-dir="build/portable/$processor/build" \
    --config-settings=cmake.build-type=RelWithDebInfo \
    --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$REPO/cmake/portable.cmake" \
    --config-settings=build.tool-args="-j$(jobs_count)" .
}

# repair_wheel PROCESSOR: auditwheel may leave a wheel behind although it failed, so the result is
# moved only afterwards.
repair_wheel() {
  rm -rf "$PORTABLE_ROOT/$1/repaired"
  PATH="$VENV/bin:$PATH" auditwheel repair --only-plat --wheel-dir "$PORTABLE_ROOT/$1/repaired" \
    "$PORTABLE_ROOT/$1"/raw/*.whl || return
  rm -f "$DIST"/*_"$1".*
  mkdir -p "$DIST"
  mv "$PORTABLE_ROOT/$1"/repaired/*.whl "$DIST"
}

# The interpreters of PYTHONS_WANTED that this machine has, or those that DEV_PYTHONS names.
wanted_pythons() {
  local version
  if [[ -n ${DEV_PYTHONS:-} ]]; then
    tr ' ' '\n' <<<"$DEV_PYTHONS"
    return
  fi
  for version in $PYTHONS_WANTED; do
    if "python$version" -c '' 2>/dev/null; then echo "python$version"; fi
  done
}

# try_pythons WHEEL: one step for each interpreter, and a line for those that are not here.
try_pythons() {
  local wheel=$1 python version found=" " failed=0
  for python in $(wanted_pythons); do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    found+="$version "
    step "first sum with Python $version" "first-sum-$version" \
      bash tools/dev/first_sum.sh "$wheel" "$python" || failed=1
  done
  for version in $PYTHONS_WANTED; do
    if [[ $found != *" $version "* ]]; then
      skip_part "first sum with Python $version" "there is none here (DEV_PYTHONS names others)"
    fi
  done
  return "$failed"
}

# built_wheel [PROCESSOR]: the path of the wheel for it, or for this machine.
built_wheel() {
  local processor=${1:-$(uname -m)} wheels
  wheels=("$DIST"/byteps_cpp-*_"$processor".whl)
  if [[ ! -f ${wheels[0]} ]]; then die "dist/ has no wheel for $processor: run ./dev wheel"; fi
  echo "${wheels[0]}"
}

built_archive() { echo "$DIST"/byteps-servers-*_"$1".tar.gz; }

# wheel_for PROCESSOR: the steps that make a wheel and its archive, and judge them.
wheel_for() {
  step "building the wheel for $1" "wheel-raw-$1" raw_wheel "$1" &&
    step "making it fit for other machines" "wheel-repair-$1" repair_wheel "$1" &&
    step "checking the wheel" "wheel-check-$1" \
      "$VENV/bin/python" -B tools/check_wheel.py "$(built_wheel "$1")" &&
    step "archive of the servers" "wheel-archive-$1" \
      "$VENV/bin/python" -B tools/server_archive.py "$(built_wheel "$1")" "$DIST"
}

# make_wheel: the steps of the command and of the lane.
make_wheel() {
  local processor wheel failed=0
  ensure_portable || return
  rm -rf "$DIST" "$LOGS"/{first,userland}-sum-*.log
  for processor in $PORTABLE_PROCESSORS; do wheel_for "$processor" || return; done
  wheel=$(built_wheel)
  step "checking the Dockerfiles" wheel-images \
    "$VENV/bin/hadolint" docker/Dockerfile docker/Dockerfile.server || failed=1
  step "programs in C and C++ built with it" wheel-programs "$VENV/bin/python" -B \
    tests/wheel_package_test.py "$wheel" "$(built_archive "$(uname -m)")" cmake g++ || failed=1
  try_pythons "$wheel" || failed=1
  for processor in $PORTABLE_PROCESSORS; do try_userland "$processor" || failed=1; done
  step "the same bits everywhere" wheel-bits compare_bits || failed=1
  return "$failed"
}
