# shellcheck shell=bash
# What `./dev wheel` compiles with, in build/portable/PROCESSOR: the result runs on machines with
# glibc PORTABLE_GLIBC or newer. Compiler, C library and libc++ are zig's, from PyPI. The other
# libraries are Debian's packages, unpacked and not installed; Debian has libhwy only as a shared
# library, so its source is compiled.

readonly PORTABLE_GLIBC=2.28
readonly PORTABLE_PROCESSORS="x86_64 aarch64"
readonly PORTABLE_ROOT="$BUILD/portable"
readonly PORTABLE_SUITE=bookworm
readonly PORTABLE_SUITE_OLD=bullseye
readonly DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
export ZIG_GLOBAL_CACHE_DIR="$PORTABLE_ROOT/zig-cache"

debian_architecture() { if [[ $1 == x86_64 ]]; then echo amd64; else echo arm64; fi; }

# portable_apt ARCHITECTURE COMMAND...: apt-get for packages of that processor, in the working
# directory, which has its lists. It knows nothing of what this machine has installed.
portable_apt() {
  local architecture=$1
  shift
  apt-get -q -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Retries=3 \
    -o Acquire::Languages=none -o APT::Architecture="$architecture" \
    -o APT::Architectures="$architecture" -o Dir::State="$PWD/state" \
    -o Dir::State::status="$PWD/state/status" -o Dir::Cache="$PWD/cache" \
    -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null "$@"
}

# Where this machine gets Debian from; if it is no Debian, from Debian's own address.
portable_sources() {
  local mirror=${DEV_FRESH_MIRROR:-} suite
  source "$REPO/tools/dev/fresh.sh"
  if [[ -z $mirror ]]; then mirror=$(apt_sources | awk '$1 ~ /\/debian\/?$/ {print $1; exit}'); fi
  mirror=${mirror:-http://deb.debian.org/debian}
  mirror=${mirror%/}
  for suite in "$PORTABLE_SUITE" "$PORTABLE_SUITE_OLD" "$PORTABLE_SUITE-updates"; do
    echo "deb [signed-by=$DEBIAN_KEYS] $mirror $suite main"
  done
  # OpenSSL is linked in, so its mended version matters most.
  echo "deb [signed-by=$DEBIAN_KEYS] $mirror-security $PORTABLE_SUITE-security main"
  echo "deb-src [signed-by=$DEBIAN_KEYS] $mirror $PORTABLE_SUITE main"
}

# write_starter FILE WORD...: a script that runs the words with its own arguments.
write_starter() {
  printf '#!/bin/sh\nexec %s "$@"\n' "${*:2}" >"$1"
  chmod 755 "$1"
}

# The compiler for a processor under names that CMake and ccache know. -O2 is there for CMake's
# questions: without it zig would compile another libc++ for these.
portable_starters() {
  local zig target="-target $1-linux-gnu.$PORTABLE_GLIBC -O2"
  zig=$("$VENV/bin/python" -c 'if True:
    import ziglang, pathlib
    print(pathlib.Path(ziglang.__file__).with_name("zig"))') || return
  mkdir -p bin
  write_starter bin/clang "$zig" cc "$target"
  write_starter bin/clang++ "$zig" c++ "$target"
  bin/clang -fPIC -c "$REPO/tools/portable/stack_guard.c" -o stack_guard.o || return
  write_starter bin/ar "$zig" ar
  write_starter bin/ranlib "$zig" ranlib
}

# Highway as static library, below root/usr.
compile_highway() {
  portable_apt "$1" source highway || return
  cmake -S highway-*/ -B highway-build -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE="$REPO/cmake/portable.cmake" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_FLAGS="-fvisibility=hidden" \
    -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_INSTALL_LIBDIR="lib/$2-linux-gnu" -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
    -DHWY_ENABLE_CONTRIB=OFF -DHWY_ENABLE_EXAMPLES=OFF &&
    nice ninja -C highway-build -j "$(jobs_count)" &&
    DESTDIR="$PWD/root" cmake --install highway-build
}

# portable_lists ARCHITECTURE: makes what portable_apt reads in the working directory.
portable_lists() {
  mkdir -p state/lists/partial cache/archives/partial
  : >state/status
  portable_sources >sources.list
  portable_apt "$1" update
}

# unpack_all FOLDER: the packages that lie in the working directory.
unpack_all() {
  local file
  for file in *.deb; do dpkg -x "$file" "$1" && rm "$file" || return; done
}

# make_portable PROCESSOR: the folder of that processor.
make_portable() (
  architecture=$(debian_architecture "$1")
  host=$(debian_architecture "$(uname -m)")
  packages=$(packages_of tools/apt-portable.txt)
  export PORTABLE="$PORTABLE_ROOT/$1"
  rm -rf "$PORTABLE"
  mkdir -p "$PORTABLE" && cd "$PORTABLE" && portable_lists "$architecture" || return
  # shellcheck disable=SC2086  # one package per word
  portable_apt "$architecture" download $packages && unpack_all root || return
  portable_starters "$1" && compile_highway "$architecture" "$1" || return
  # The compiler of schemas runs here, and is of the version of the headers.
  if [[ $host != "$architecture" ]]; then portable_lists "$host" || return; fi
  portable_apt "$host" download flatbuffers-compiler && unpack_all tools &&
    cp tools/usr/bin/flatc bin && rm -rf tools state cache highway*
)

# ensure_portable: one step for each processor.
ensure_portable() {
  local processor key
  for processor in $PORTABLE_PROCESSORS; do
    key=$({ cat tools/apt-portable.txt tools/dev/portable.sh tools/portable/stack_guard.c \
      cmake/portable.cmake &&
      "$VENV/bin/python" -m ziglang version && portable_sources; } | hash_of)
    once "$PORTABLE_ROOT/$processor.stamp" "$key" "libraries for $processor" \
      "portable-$processor" make_portable "$processor" || return
  done
}
