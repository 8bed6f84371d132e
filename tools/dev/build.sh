# shellcheck shell=bash
# CMake builds, one folder per flavour: build (gcc), build/asan, tsan, clang, fuzz and aarch64.

# The wheel and the gcc build compile the same files with the same flags, in folders of different
# depth: with absolute paths, and without the folder in the hash, ccache answers for the second.
export CCACHE_NOHASHDIR=1
export CCACHE_BASEDIR=

# The wheel's too. ccache takes the compiler's name into account: not c++ here and g++ there.
readonly GCC=(-DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=RelWithDebInfo)

# Not with clang-tidy, which reports by file, and so the lane clang sees what a batch hides.
readonly BATCHES=(-DBYTEPS_TESTS_IN_BATCHES=ON -DBYTEPS_SOURCES_IN_BATCHES=ON)

jobs_count() { echo "${DEV_JOBS:-$(nproc)}"; }

# configure DIR ARGUMENT...: quick, and does nothing when the arguments are those of the last time.
configure() {
  local dir=$1 key
  shift
  key=$(echo "$REPO $*" | hash_of)
  if [[ -f $dir/build.ninja && "$(cat "$dir/stamp-configure" 2>/dev/null)" == "$key" ]]; then
    return
  fi
  mkdir -p "$dir"
  step "configuring ${dir#"$REPO/"}" "configure-$(basename "$dir")" \
    cmake -S . -B "$dir" -G Ninja "$@" && echo "$key" >"$dir/stamp-configure"
}

flavour_arguments() {
  local clang=(-DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Lane)
  local lines=-gline-tables-only # all that a sanitizer's report needs
  case "$1" in
    gcc) printf '%s\n' "${GCC[@]}" "${BATCHES[@]}" ;;
    # clang at -O0 compiles three times as fast as gcc at -O1 under ASan.
    asan)
      printf '%s\n' "${clang[@]}" "-DCMAKE_CXX_FLAGS_LANE=-O0 $lines -D_GLIBCXX_ASSERTIONS" \
        "${BATCHES[@]}" -DBYTEPS_SANITIZE=address -DBYTEPS_THREAD_SAFETY=ON
      ;;
    tsan)
      printf '%s\n' "${clang[@]}" "-DCMAKE_CXX_FLAGS_LANE=-O1 $lines" \
        "${BATCHES[@]}" -DBYTEPS_SANITIZE=thread
      ;;
    clang)
      printf '%s\n' -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DBYTEPS_THREAD_SAFETY=ON
      ;;
    aarch64)
      printf '%s\n' "-DCMAKE_TOOLCHAIN_FILE=$REPO/cmake/aarch64.cmake" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo "${BATCHES[@]}"
      ;;
    fuzz)
      printf '%s\n' "${clang[@]}" "-DCMAKE_CXX_FLAGS_LANE=-O1 $lines" \
        -DBYTEPS_SANITIZE=address -DBYTEPS_FUZZ=ON
      ;;
  esac
}

flavour_dir() {
  if [[ $1 == gcc ]]; then echo "$BUILD"; else echo "$BUILD/$1"; fi
}

# configure_flavour FLAVOUR
configure_flavour() {
  local arguments
  mapfile -t arguments < <(flavour_arguments "$1")
  configure "$(flavour_dir "$1")" "${arguments[@]}"
}

# targets_of FLAVOUR PREFIX: the executables whose name begins so.
targets_of() {
  ninja -C "$(flavour_dir "$1")" build.ninja > /dev/null  # a list file may have changed
  ninja -C "$(flavour_dir "$1")" -t targets all 2>/dev/null |
    sed -nE "s/^($2[A-Za-z0-9_]*): phony\$/\1/p" | sort -u
}

# build FLAVOUR TEXT TARGET...: one step, after a quiet configuration.
build() {
  local flavour=$1 text=$2 dir count
  shift 2
  configure_flavour "$flavour" || return
  dir=$(flavour_dir "$flavour")
  ninja -C "$dir" build.ninja >/dev/null 2>&1 || true # so that the count is of this tree
  count=$(ninja -C "$dir" -n "$@" 2>/dev/null | grep -cE '^\[[0-9]+/' || true)
  step "$text ($count files)" "build-$flavour" \
    nice ninja -C "$dir" -j "$(jobs_count)" -k 20 "$@"
}
