# shellcheck shell=bash
# The lanes of `./dev test`. A lane is a function; it prints its steps, returns non-zero on failure
# and names in LANE_LOGS the logs in which tests are counted (tools/count_tests.py). What a lane
# skips must be in tools/may_skip.txt.

# The sanitizer lanes take longer than the rest together on two cores; `./dev test --all` has them.
readonly LANES_DEFAULT="lint gcc python engines sim spec frameworks"
readonly LANES_MORE="torch-old torch-new integrations matrix spec-mutants collectives asan tsan \
clang tidy fuzz bench wheel docs seeing rdma"

# What has threads, or runs parts that have: ctest names, an extended regular expression.
THREADED='base|machine|transport|rdma|runtime|session|tests|cluster|capi|local'
readonly THREADED="($THREADED|device|cuda_|nccl_)"

readonly SEEING_TESTS=tests/python/seeing
readonly RDMA_TESTS=tests/python/soft_roce
# Those that the Python of .venv can run; some need what the lane engines has.
readonly OWN_TESTS=("--ignore=$FRAMEWORK_TESTS" "--ignore=$INTEGRATION_TESTS"
  "--ignore=$SEEING_TESTS" "--ignore=$RDMA_TESTS" tests/python)

# As without sanitizers, who asks for more memory than there is gets an error, and the process does
# not end.
readonly SANITIZER_OPTIONS=allocator_may_return_null=1

LANES=() # of this run
AHEAD="" # the process that installs for them
LANE_LOGS=()
# The parts that a lane of this run skips. Each ./dev has a file of its own, because another one may
# run in this checkout.
readonly PARTS="$LOGS/parts-$$.log"

# tests_at_a_time PER_CORE: so many for each core, but no more than there are GiB of memory.
tests_at_a_time() {
  local wanted=$(($1 * $(jobs_count))) room
  room=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  if ((room < wanted)); then wanted=$room; fi
  echo $((wanted > 1 ? wanted : 1))
}

# run_ctest FLAVOUR TEXT [CTEST ARGUMENT...]: more at a time than there are cores, as the longest
# tests, those of whole jobs, wait five sixths of their time. With a sanitizer they wait less.
run_ctest() {
  local flavour=$1 text=$2 per_core=6
  if [[ $flavour == ?san ]]; then per_core=2; fi
  shift 2
  LANE_LOGS+=("$LOGS/ctest-$flavour.log")
  step "$text" "ctest-$flavour" ctest --test-dir "$(flavour_dir "$flavour")" \
    -j "$(tests_at_a_time "$per_core")" -V --no-tests=error "$@"
}

# run_pytest TEXT LOG PYTHON [ARGUMENT...]: the report in XML has the whole name of each skipped
# test, with its reason. -v: the log of a run that is cut short says which tests had failed.
run_pytest() {
  local text=$1 log=$2 python=$3
  shift 3
  rm -f "$LOGS/$log.xml"
  LANE_LOGS+=("$LOGS/$log.log" "$LOGS/$log.xml")
  step "$text" "$log" "$python" -m pytest -v -ra --timeout=300 --durations=10 \
    --junitxml="$LOGS/$log.xml" "$@"
}

# skip_part NAME REASON: a part of a lane that cannot run here.
skip_part() {
  echo "$1: skipped, $2"
  echo "skipped part: $1: $2" >>"$PARTS"
}

lane_lint() {
  LANE_LOGS+=("$LOGS/lint.log")
  step "lint" lint "$VENV/bin/python" tools/lint.py
}

# install_ahead: what the lanes of this run need, as far as a function needs_LANE installs it.
install_ahead() {
  local name
  for name in "${LANES[@]}"; do
    if declare -F "needs_${name//-/_}" >/dev/null; then "needs_${name//-/_}" || true; fi
  done
}

# Begins to install what later lanes need, once, in the background, because the tests of the lane
# gcc leave processors idle. A lane tries again what fails here, and reports it.
begin_ahead() {
  if [[ -n $AHEAD ]]; then return; fi
  set -m # a process group of its own, which ends with this run
  (renice -n 10 "$BASHPID" && install_ahead) >"$LOGS/ahead.log" 2>&1 </dev/null &
  set +m
  AHEAD=$!
  trap 'kill -- "-$AHEAD" 2>/dev/null || true' EXIT
}

lane_gcc() {
  build gcc "building with gcc" all && begin_ahead && run_ctest gcc "unit tests"
}

needs_python() { ensure_wheel; }

# More at a time than there are cores: the jobs of the tests wait more than half of their time.
lane_python() {
  ensure_wheel && begin_ahead || return
  run_pytest "Python tests" pytest "$VENV/bin/python" -n "$(tests_at_a_time 5)" \
    --dist worksteal -m "not engine" "${OWN_TESTS[@]}"
}

# with_more_cases FOLDER...: its tests that have more cases than a daily run takes.
with_more_cases() {
  grep -rlE --include='test_*.py' --exclude-dir=frameworks '\bFULL\b|@(some_)?shapes' "$@"
}

# All cases of the tests of the lanes python, engines and frameworks that have more than these lanes
# run: jobs with 1 to 4 workers and 1 to 3 servers each, each launcher with each ending, Keras on
# each backend, and more of everything.
lane_matrix() {
  local name files status=0
  mapfile -t files < <(with_more_cases tests/python)
  ensure_wheel && ensure_engines || return
  TEST_FULL=1 PATH="$ENGINES/bin:$PATH" run_pytest "Python jobs of every shape" matrix \
    "$VENV/bin/python" -n "$(jobs_count)" "${files[@]}" || status=1
  for name in $(frameworks); do
    if [[ $name == torch ]]; then continue; fi # .venv has it
    mapfile -t files < <(with_more_cases "$FRAMEWORK_TESTS/$name")
    TEST_FULL=1 test_framework "$name" new matrix "${files[@]}" || status=1
  done
  return "$status"
}

# Random operations through every adapter, each result compared with what numpy computes: DEV_CASES
# of them, from DEV_SEED. JAX and TensorFlow run in the environments of the lane frameworks.
lane_collectives() {
  local program=(-m random_collectives.lane) status=0 name place reports=()
  local seed=${DEV_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')} cases=${DEV_CASES:-2000}
  ensure_wheel || return
  for name in numpy torch c10d jax tensorflow; do
    place=$VENV
    if [[ $name == jax || $name == tensorflow ]]; then
      place="$VENV-$name-new"
      of_framework "$name" new ensure_framework || return
    fi
    LANE_LOGS+=("$LOGS/collectives-$name.log")
    reports+=("$LOGS/collectives-$name.json")
    rm -f "${reports[-1]}"
    step "random operations of $name, seed $seed" "collectives-$name" \
      env PYTHONPATH=tests/python "$place/bin/python" "${program[@]}" --adapters "$name" \
      --cases "$((cases / 5))" --seed "$seed" --report "${reports[-1]}" || status=1
  done
  PYTHONPATH=tests/python "$VENV/bin/python" "${program[@]}" --add "${reports[@]}" || status=1
  return "$status"
}

lane_sim() {
  build gcc "building the simulator" sim/byteps_sim &&
    step "simulating ${DEV_SIM_SEEDS:-3000} seeds" sim \
      "$BUILD/sim/byteps_sim" --seeds "${DEV_SIM_SEEDS:-3000}" &&
    step "simulating ${DEV_SIM_SEEDS:-3000} seeds with faults" sim-faults \
      "$BUILD/sim/byteps_sim" --faults --seeds "${DEV_SIM_SEEDS:-3000}"
}

lane_spec() {
  LANE_LOGS+=("$LOGS/spec.log")
  step "the models in spec/, small bounds and a third of the mutants" spec \
    python3 -B spec/run.py --some --jobs "$(jobs_count)"
}

lane_spec_mutants() {
  LANE_LOGS+=("$LOGS/spec-mutants.log")
  step "the models in spec/, all mutants" spec-mutants \
    python3 -B spec/run.py --only mutant --jobs "$(jobs_count)"
}

# Each file by itself, without batches: a missing include is seen here.
lane_clang() {
  LANE_LOGS+=("$LOGS/lint-headers.log")
  step "each header alone" lint-headers "$VENV/bin/python" tools/lint.py headers &&
    build clang "building with clang, optimized" all && run_ctest clang "unit tests"
}

# Also the lane of -Wthread-safety: everything is compiled, not only the tests.
lane_asan() {
  build asan "building with clang, -Wthread-safety, ASan, UBSan" all &&
    ASAN_OPTIONS=$SANITIZER_OPTIONS run_ctest asan "unit tests under ASan and UBSan"
}

lane_tsan() {
  local targets
  configure_flavour tsan || return
  mapfile -t targets < <(targets_of tsan test_ | grep -E "^test_$THREADED")
  if ((${#targets[@]} == 0)); then return; fi
  build tsan "building with TSan" "${targets[@]}" &&
    TSAN_OPTIONS=$SANITIZER_OPTIONS run_ctest tsan "threaded tests under TSan" -R "^$THREADED"
}

lane_tidy() {
  build clang "building with clang" all &&
    step "clang-tidy" clang-tidy nice run-clang-tidy-19 -p "$BUILD/clang" -quiet \
      -j "$(jobs_count)" "$REPO/(src|apps|sim)/.*[.]cc$"
}

lane_fuzz() { run_fuzzers 60; }

lane_bench() {
  ensure_wheel &&
    step "bench core, short" bench "$VENV/bin/python" bench/core.py --repeats 2 --jobs 1x1 &&
    step "bench torch" bench-torch "$VENV/bin/python" bench/torch_step.py
}

# What a job shows of itself, seen by a browser and by Prometheus. With SEEING_PICTURES=docs/images
# the pictures of docs/seeing.md are made anew.
lane_seeing() {
  ensure_system tools/apt-seeing.txt
  ensure_wheel || return
  once "$VENV/stamp-seeing" "$(hash_of <tools/requirements-seeing.txt)" \
    "Python packages for the lane seeing" venv-seeing pip_quiet -r tools/requirements-seeing.txt ||
    return
  run_pytest "what a browser and Prometheus see" seeing "$VENV/bin/python" "$SEEING_TESTS"
}

# Checks on a GPU, if this machine has one.
lane_gpu() {
  local status=0
  ensure_wheel || return
  "$VENV/bin/python" tests/gpu/check.py --json "$LOGS/gpu.json" || status=$?
  if ((status == 3)); then
    skip_part gpu "there is no GPU that could be checked"
    return
  fi
  return "$status"
}

install_nccl() {
  rm -rf "$BUILD/nccl" && "$VENV/bin/python" -m pip install --disable-pip-version-check --quiet \
    --no-deps --target "$BUILD/nccl" -r tools/requirements-nccl.txt
}

# The real NCCL on a machine without a GPU. Not in --all: the package has 300 MB.
lane_nccl() {
  local packages="$BUILD/nccl/nvidia"
  make_venv || return
  once "$BUILD/stamp-nccl" "$(hash_of <tools/requirements-nccl.txt)" "NCCL and its headers" \
    nccl-package install_nccl || return
  configure_flavour gcc || return
  cmake "-DBYTEPS_NCCL_HEADERS=$packages/nccl/include;$packages/cu13/include" \
    "$(flavour_dir gcc)" >"$LOGS/nccl-headers.log" || return
  build gcc "comparing the declarations with NCCL's header" real_nccl || return
  step "asking the real NCCL" nccl \
    "$(flavour_dir gcc)/tests/nccl_standin/real_nccl" "$packages/nccl/lib/libnccl.so.2" || return
  cat "$LOGS/nccl.log"
}

lane_docs() { make_site; }

lane_wheel() {
  ensure_system tools/apt-wheel.txt
  ensure_release_needs && make_wheel
}

# Not in --all: an edit takes half a minute.
lane_mutants() {
  ensure_wheel || return
  LANE_LOGS+=("$LOGS/mutants.log")
  step "making ${DEV_MUTANTS:-60} wrong edits, one at a time" mutants nice \
    "$VENV/bin/python" tools/mutate.py --edits "${DEV_MUTANTS:-60}" --jobs "$(jobs_count)"
}

# run_lane NAME: runs it and appends one row to RESULTS.
run_lane() {
  local name=$1 started=$SECONDS status=0 counts passed failed skipped
  LANE_LOGS=("$PARTS")
  : >"$PARTS"
  STEP_TOTAL=0
  echo "-- $name"
  "lane_${name//-/_}" || status=$?
  counts=$("${DEV_PYTHON:-python3}" tools/count_tests.py --lane "$name" --status "$status" \
    "${LANE_LOGS[@]}")
  rm -f "$PARTS"
  read -r passed failed skipped <<<"$counts"
  PASSED=$((PASSED + passed))
  FAILED=$((FAILED + failed))
  SKIPPED=$((SKIPPED + skipped))
  RESULTS+=("$(row "$name" "$( ((failed)) && echo FAILED || echo ok)" \
    "$passed" "$failed" "$skipped" "$((SECONDS - started))")")
}

row() { printf '%-12s %-6s %7s %7s %7s %6s\n' "$@"; }

# run_lanes NAME...: the table and, as the last line, the sum. Returns 1 on any failure.
run_lanes() {
  local started=$SECONDS
  LANES=("$@")
  RESULTS=()
  PASSED=0
  FAILED=0
  SKIPPED=0
  for name in "$@"; do run_lane "$name"; done
  echo
  row lane result passed failed skipped s
  printf '%s\n' "${RESULTS[@]}"
  echo "total $((SECONDS - started)) s, logs in $LOGS"
  echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  ((FAILED == 0))
}
