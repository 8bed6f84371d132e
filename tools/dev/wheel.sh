# shellcheck shell=bash
# `./dev wheel`: what is published. One wheel, and an archive of the servers out of the same wheel,
# both in dist/. docs/releasing.md says when.

readonly DIST="$REPO/dist"
readonly PYTHONS_WANTED="3.10 3.11 3.12 3.13"

install_release_needs() { make_venv && pip_quiet -r tools/requirements-wheel.txt; }

ensure_release_needs() {
  once "$VENV/stamp-release" "$(hash_of <tools/requirements-wheel.txt)" \
    "Python packages for the wheel" venv-release install_release_needs
}

# The flags are those of the build that the tests run, so what is published is what was tested;
# only the debugging symbols are left out.
raw_wheel() {
  rm -rf "$BUILD/wheel-raw"
  nice "$VENV/bin/python" -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps \
    --wheel-dir "$BUILD/wheel-raw" \
    --config-settings=build-dir=build/release \
    --config-settings=cmake.build-type=RelWithDebInfo \
    --config-settings=install.strip=true \
    --config-settings=cmake.define.CMAKE_CXX_COMPILER=g++ \
    --config-settings=build.tool-args="-j$(jobs_count)" .
}

# auditwheel may leave a wheel behind although it failed, so the result is moved only afterwards.
repair_wheel() {
  rm -rf "$BUILD/wheel-repaired"
  PATH="$VENV/bin:$PATH" auditwheel repair --wheel-dir "$BUILD/wheel-repaired" \
    "$BUILD"/wheel-raw/*.whl || return
  rm -rf "$DIST"
  mkdir -p "$DIST"
  mv "$BUILD"/wheel-repaired/*.whl "$DIST"
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

built_wheel() {
  local wheels=("$DIST"/*.whl)
  if [[ ! -f ${wheels[0]} ]]; then die "dist/ has no wheel: run ./dev wheel"; fi
  echo "${wheels[0]}"
}

# make_wheel: the steps of the command and of the lane.
make_wheel() {
  local wheel
  step "building the wheel" wheel-raw raw_wheel &&
    step "making it fit for other machines" wheel-repair repair_wheel || return
  wheel=$(built_wheel)
  step "checking the wheel" wheel-check "$VENV/bin/python" -B tools/check_wheel.py "$wheel" &&
    step "checking the Dockerfiles" wheel-images \
      "$VENV/bin/hadolint" docker/Dockerfile docker/Dockerfile.server &&
    step "archive of the servers" wheel-archive \
      "$VENV/bin/python" -B tools/server_archive.py "$wheel" "$DIST" &&
    try_pythons "$wheel"
}
