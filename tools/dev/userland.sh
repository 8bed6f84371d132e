# shellcheck shell=bash
# Tries the wheels of `./dev wheel` in a small system with the oldest glibc that Debian still has,
# for both processors; programs for ARM run under qemu. That Debian has no Python that is new
# enough, so the archive of Debian's Python 3.11 is linked anew, for the same glibc as the wheel.

# userland_python ROOT: Python and its module _ctypes; the modules that need no newer glibc are
# Debian's. In the folder of the processor.
userland_python() {
  local root=$1 architecture=$2 libraries=root/usr/lib/$3-linux-gnu modules
  local flags=(-s -Iroot/usr/include/python3.11 -Iroot/usr/include/python3.11/internal
    -Iroot/usr/include "-Iroot/usr/include/$3-linux-gnu")
  # Without -pic there would be copies of the C library's variables; that of `environ` is empty.
  bin/clang "${flags[@]}" -rdynamic "$REPO/tools/portable/python.c" -o "$root/usr/bin/python3.11" \
    -Wl,--whole-archive "root/usr/lib/python3.11/config-3.11-$3-linux-gnu/libpython3.11-pic.a" \
    -Wl,--no-whole-archive "$root/lib/$3-linux-gnu/"{libz,libexpat}.so.1 -lm -ldl -lutil || return
  portable_apt "$architecture" source --download-only python3.11 &&
    tar xf python3.11_*.orig.tar.gz --wildcards '*/Modules/_ctypes/*' || return
  modules=$(echo Python-*/Modules/_ctypes)
  bin/clang "${flags[@]}" -fPIC -shared "-I$modules" -DPy_BUILD_CORE_MODULE=1 \
    -DHAVE_FFI_PREP_CIF_VAR=1 -DHAVE_FFI_PREP_CLOSURE_LOC=1 -DHAVE_FFI_CLOSURE_ALLOC=1 \
    "$modules"/{_ctypes,callbacks,callproc,cfield,stgdict}.c "$libraries/libffi_pic.a" -ldl \
    -o "$root/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-$3-linux-gnu.so"
}

# make_userland PROCESSOR
make_userland() (
  architecture=$(debian_architecture "$1")
  packages=$(packages_of tools/apt-userland.txt)
  cd "$PORTABLE_ROOT/$1" || return
  rm -rf userland
  portable_lists "$architecture" || return
  # shellcheck disable=SC2086  # one package per word
  portable_apt "$architecture" download $packages && unpack_all userland || return
  userland_python userland "$architecture" "$1" || return
  rm -rf state cache Python-* python3.11_*
)

# install_in_userland PROCESSOR WHEEL: pip chooses for that system, and compiles nothing.
install_in_userland() {
  local place="$PORTABLE_ROOT/$1/userland/byteps" version platforms=()
  for version in 2_28 2_27 2_17; do platforms+=(--platform "manylinux_${version}_$1"); done
  rm -rf "$place"
  mkdir -p "$place"
  "$VENV/bin/python" -m pip install --disable-pip-version-check --quiet --no-compile \
    --target "$place/site" --only-binary=:all: --python-version 3.11 "${platforms[@]}" \
    --platform "manylinux2014_$1" "$2" numpy &&
    cp tools/dev/first_sum.py tools/dev/userland_sum.sh "$place"
}

userland_sum() {
  local qemu=""
  if [[ $1 != "$(uname -m)" ]]; then qemu=$(command -v "qemu-$1-static"); fi
  source "$REPO/tools/dev/fresh.sh"
  FRESH_QEMU=$qemu FRESH_SCRIPT="bash userland_sum.sh" fresh_run "$PORTABLE_ROOT/$1/userland"
}

# Whether a user namespace may name an interpreter for itself (Linux 6.7).
namespaces_have_interpreters() {
  unshare --user --map-root-user --mount -- \
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null
}

# try_userland PROCESSOR
try_userland() {
  local key name="the wheel for $1 with glibc 2.31"
  if ((EUID != 0)); then
    skip_part "$name" "only root may make namespaces everywhere"
    return
  fi
  if [[ $1 != "$(uname -m)" ]] && ! namespaces_have_interpreters; then
    skip_part "$name" "this kernel is older than 6.7, and would run qemu for the whole machine"
    return
  fi
  key=$(cat tools/apt-userland.txt tools/dev/userland.sh tools/portable/python.c | hash_of)
  once "$PORTABLE_ROOT/$1-userland.stamp" "$key" "a system with glibc 2.31 for $1" \
    "userland-$1" make_userland "$1" &&
    step "installing the wheel in it" "userland-install-$1" \
      install_in_userland "$1" "$(built_wheel "$1")" &&
    step "first sum in it" "userland-sum-$1" userland_sum "$1"
}

# compare_bits: the digests of first_sum.py are one and the same, on all processors and Pythons.
compare_bits() {
  local bits
  bits=$(cat "$LOGS"/first-sum-*.log "$LOGS"/userland-sum-*.log | sed -n 's/.*bits: //p' | sort)
  uniq -c <<<"$bits"
  [[ $(sort -u <<<"$bits" | wc -l) == 1 && -n $bits ]]
}
