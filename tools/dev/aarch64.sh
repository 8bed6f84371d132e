# shellcheck shell=bash
# `./dev lane aarch64`: the library and its tests for ARM machines, cross-compiled, and the tests
# that need no other process run under qemu-user. What they link against is a Debian for ARM that is
# only unpacked, in build/aarch64-root.

readonly ARM_ROOT="$BUILD/aarch64-root"
export AARCH64_ROOT="$ARM_ROOT"
readonly ARM_SUITE=bookworm
readonly ARM_PACKAGES=(g++ libasio-dev libbenchmark-dev libcli11-dev libflatbuffers-dev libfmt-dev
  libgmock-dev libgtest-dev libhwy-dev libibverbs-dev librapidcheck-dev libspdlog-dev libssl-dev)

# The tests of what depends on the processor: arithmetic, bytes, and the state machines on top.
readonly ARM_TESTS=(base config kernels wire plan operations shard worker control)

arm_mirror() {
  source tools/dev/fresh.sh
  apt_sources | awk -v suite="$ARM_SUITE" '$2 == suite {print $1; exit}'
}

# debootstrap's first stage unpacks some packages and only downloads the others.
make_arm_root() {
  local package
  rm -rf --one-file-system "$ARM_ROOT"
  mkdir -p "$BUILD"
  debootstrap --foreign --arch=arm64 --variant=minbase \
    --include="$(tr ' ' , <<<"${ARM_PACKAGES[*]}")" "$ARM_SUITE" "$ARM_ROOT" \
    "${DEV_FRESH_MIRROR:-$(arm_mirror)}" || return
  for package in "$ARM_ROOT"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$ARM_ROOT" || return
  done
  rm -rf "$ARM_ROOT/var/cache/apt/archives"
}

ensure_arm() {
  local key
  if ((EUID != 0)); then die "the lane aarch64 needs root, for debootstrap"; fi
  key=$(hash_of <<<"$ARM_SUITE ${ARM_PACKAGES[*]}")
  if [[ ! -d $ARM_ROOT ]]; then rm -f "$BUILD/stamp-aarch64"; fi
  ensure_system tools/apt-aarch64.txt &&
    once "$BUILD/stamp-aarch64" "$key" "a Debian for ARM" aarch64-root make_arm_root
}

lane_aarch64() {
  local names
  ensure_arm || return
  names=$(IFS='|' && echo "${ARM_TESTS[*]}")
  build aarch64 "building for aarch64" byteps bps-server bps-scheduler "${ARM_TESTS[@]/#/test_}" &&
    run_ctest aarch64 "unit tests on ARM" -R "^($names)\$"
}
