# shellcheck shell=bash
# The commands of ./dev, one function each.

command_help() {
  cat <<'TEXT'
./dev COMMAND

  demo              train a small network on 2 workers and 2 servers; compare with one process
  test              the default lanes: lint gcc python engines sim spec frameworks; about 35 minutes
  test --all        also the long lanes: torch-old torch-new integrations matrix spec-mutants
                    collectives asan tsan clang tidy fuzz bench wheel docs seeing rdma
  lane NAME...      single lanes of these; or mutants: small wrong edits that a test must notice;
                    or aarch64: cross-compiled, and unit tests under qemu (needs root);
                    or gpu: checks on this machine's GPU, in five minutes (docs/gpu.md);
                    or nccl: the real NCCL (300 MB from PyPI), without a GPU
  lane engines      the tests with sshd, Slurm, Open MPI and Ray, which are unpacked into
                    build/engines and into an environment beside .venv; nothing is installed
  lane rdma         the RDMA transport over Soft-RoCE of Debian's kernel, in a small virtual
                    machine in build/rdma-vm; installs nothing (Debian 12, x86-64)
  lane rdma --device mlx5_0 --peer 10.0.0.2   the same suites over a device of this machine, and
                    rate and processor time of a job with another host; fills in docs/rdma.md
  lane torch-old torch-new   the tests of torch with its oldest and its newest version, those of
                    tools/requirements-torch*.txt; the lane python runs them with that of .venv.
                    The newest comes from the same place as that of .venv: if only PyPI answers,
                    with several GB of CUDA
  lane frameworks [--versions old,new] [--only NAME,...]   each framework in a virtual environment
                    of its own, with one wheel of byteps; without options, the newest TensorFlow,
                    Keras, JAX and MXNet
                    A lane fails if it skips a test that is not in tools/may_skip.txt.
  lane matrix       all cases of the tests of which the lanes python, engines and frameworks run
                    some: more workers and servers, each launcher with each ending, Keras on each
                    backend
  lane integrations the examples of transformers' Trainer, Accelerate, Lightning, DeepSpeed
                    and torch's own parallel modules, over byteps and over gloo
  lint [NAME...]    formatting, layers, headers, sizes, words, docs; seconds
  format            rewrite what clang-format and ruff would complain about
  sim [ARGUMENT...] the cluster simulator, e.g. ./dev sim --seeds 20000
  spec [--some] [--large] [--only NAME] [--jobs N]   the models in spec/, with their mutants, or
                    with a third of them; --large: hours
  fuzz [--seconds N] [TARGET...]   each fuzz target for 60 s, or N
  bench NAME [ARGUMENT...]   core device_ways doctor growth kills lab local_step long_paths
                    rdma seeing seeing_times stalls strangers torch torch_doors window; results in
                    bench-out/ or on the screen. bench plot draws those that are kept, for
                    docs/performance.md
  asan, tsan        one sanitizer lane
  fresh COMMAND     COMMAND in a bare Debian 12 made for it (needs root); tests what is committed
  docs              the site of all pages, with checked links, in build/site
  wheel             build, check and try the wheels and the archives of the servers, for x86-64 and
                    ARM, into dist/
  gpu-kit           dist/byteps-gpu-kit.tar.gz: all that the lane gpu needs on another machine
  first-sum         the wheel of dist/ in a bare Debian 12: seconds until the first sum (needs root)
  setup             install what is missing and stop
  clean             remove build/ (.venv stays)

Everything missing is installed first: system packages (with root or sudo), then .venv. Settings:
  DEV_TORCH_SPEC    which torch to install (torch==2.13.0)
  DEV_TORCH_INDEX   package index for torch (pip's, if it is set to one; else PyTorch's CPU builds)
  DEV_PYTHON        the Python that .venv is made from (python3)
  DEV_PYTHONS       interpreters in which ./dev wheel tries the wheel (python3.10 to python3.14)
  DEV_VENV          another place for .venv
  DEV_JOBS          parallel compilations (number of cores)
  DEV_SIM_SEEDS     seeds of the lane sim (3000)
  DEV_MUTANTS       edits of the lane mutants (60)
  DEV_CASES         cases of the lane collectives (2000)
  DEV_SEED          where they come from (each time another number)
  DEV_RDMA_TESTS    options of pytest in the lane rdma, such as "-k killed"
  DEV_RDMA_BENCH    options of bench/rdma.py in it, such as "--mb 256 --rounds 100"
TEXT
}

ensure_all() {
  plan_steps "$1"
  ensure_system tools/apt.txt
  ensure_venv
}

command_setup() {
  plan_steps 3
  ensure_system tools/apt.txt tools/apt-lint.txt
  ensure_venv
  ensure_lint_venv
}

command_demo() {
  ensure_all 3
  ensure_wheel
  exec "$VENV/bin/python" examples/demo.py "$@"
}

command_test() {
  local lanes=$LANES_DEFAULT
  case "${1:-}" in
    --all) lanes="$LANES_DEFAULT $LANES_MORE" ;;
    "") ;;
    *) die "test: no option '$1'; single lanes run with ./dev lane NAME" ;;
  esac
  # shellcheck disable=SC2086  # one lane per word
  command_lane $lanes
}

command_lane() {
  take_lane_options "$@"
  set -- "${REST[@]}"
  if (($# == 0)); then die "lane: name one of: $LANES_DEFAULT $LANES_MORE"; fi
  for name in "$@"; do
    declare -F "lane_${name//-/_}" >/dev/null ||
      die "lane: no lane '$name'; there are: $LANES_DEFAULT $LANES_MORE"
  done
  command_setup
  run_lanes "$@"
}

command_asan() { command_lane asan; }
command_tsan() { command_lane tsan; }

command_lint() {
  plan_steps 2 quiet
  ensure_system tools/apt.txt tools/apt-lint.txt
  ensure_lint_venv
  exec "$VENV/bin/python" tools/lint.py "$@"
}

command_format() {
  plan_steps 2
  ensure_system tools/apt-lint.txt
  ensure_lint_venv
  exec "$VENV/bin/python" tools/format.py --write
}

command_sim() {
  plan_steps 2
  ensure_system tools/apt.txt
  build gcc "building the simulator" sim/byteps_sim
  exec "$BUILD/sim/byteps_sim" "$@"
}

command_spec() {
  plan_steps 1 quiet
  ensure_system tools/apt.txt
  exec python3 -B spec/run.py "$@"
}

# run_fuzzers SECONDS [TARGET...]: each in turn, from the seeds in the tree and what was found
# before. A finding is kept in build/fuzz/findings.
run_fuzzers() {
  local seconds=$1 failed=0 target corpus seeds
  shift
  configure_flavour fuzz || return
  local targets=("$@")
  if ((${#targets[@]} == 0)); then mapfile -t targets < <(targets_of fuzz fuzz_); fi
  if ((${#targets[@]} == 0)); then die "fuzz: this tree has no target fuzz_*"; fi
  build fuzz "building ${#targets[@]} fuzz targets" "${targets[@]}" || return
  mkdir -p "$BUILD/fuzz/findings"
  for target in "${targets[@]}"; do
    corpus="$BUILD/fuzz/corpus/$target"
    mkdir -p "$corpus"
    mapfile -t seeds < <(find src tests -type d -path "*/corpus/$target")
    step "fuzzing $target for $seconds s" "$target" \
      "$(find "$BUILD/fuzz" -type f -name "$target" -perm -u+x | head -n 1)" \
      -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$BUILD/fuzz/findings/$target-" "$corpus" "${seeds[@]}" || failed=1
  done
  return "$failed"
}

command_fuzz() {
  local seconds=60
  if [[ ${1:-} == --seconds ]]; then
    seconds=${2:?--seconds needs a number}
    shift 2
  fi
  plan_steps 0
  ensure_system tools/apt.txt tools/apt-lint.txt
  run_fuzzers "$seconds" "$@"
}

command_bench() {
  local name=${1:-}
  case "$name" in
    core | device_ways | doctor | growth | kills | lab | local_step | long_paths) shift ;;
    plot | rdma | seeing | seeing_times | stalls | strangers) shift ;;
    torch | torch_doors | window) shift ;;
    *)
      die "bench: name one of: core device_ways doctor growth kills lab local_step long_paths" \
        "plot rdma seeing seeing_times stalls strangers torch torch_doors window"
      ;;
  esac
  ensure_all 4
  if [[ $name == plot ]]; then exec "$VENV/bin/python" bench/plot.py "$@"; fi
  ensure_wheel
  if [[ $name == rdma ]]; then exec "$VENV/bin/python" bench/rdma.py "$@"; fi
  if [[ $name == torch ]]; then exec "$VENV/bin/python" bench/torch_step.py "$@"; fi
  if [[ $name == torch_doors ]]; then
    ensure_integrations && exec "$VENV-integrations/bin/python" bench/torch_doors.py "$@"
  fi
  build gcc "building the benchmarks" all
  exec "$VENV/bin/python" "bench/$name.py" "$@"
}

command_wheel() {
  plan_steps 0
  ensure_system tools/apt.txt tools/apt-wheel.txt
  ensure_release_needs
  make_wheel
}

# make_site: the steps of the command and of the lane.
make_site() {
  once "$VENV/stamp-docs" "$(hash_of <tools/requirements-docs.txt)" \
    "Python packages for the site" venv-docs install_docs_needs &&
    step "collecting the pages" docs-pages \
      "$VENV/bin/python" -B tools/site_pages.py build/site-source &&
    step "building the site in build/site" docs \
      env NO_MKDOCS_2_WARNING=1 "$VENV/bin/mkdocs" build --clean
}

install_docs_needs() { make_venv && pip_quiet -r tools/requirements-docs.txt; }

command_docs() {
  plan_steps 0
  ensure_system tools/apt.txt
  make_site
}

command_first_sum() { source tools/dev/fresh.sh && fresh_first_sum "$@"; }

# The wheel, what it depends on, and the checks, for a machine that has Python, torch with CUDA and
# no network.
command_gpu_kit() {
  local kit="$BUILD/gpu-kit/byteps-gpu-kit"
  ensure_all 4
  ensure_wheel
  rm -rf "$kit" && mkdir -p "$kit/wheels" dist
  cp "$WHEELS"/byteps_cpp-*.whl "$kit/wheels/"
  cp tests/gpu/*.py tests/gpu/check.sh "$kit/"
  step "what the wheel depends on" gpu-kit "$VENV/bin/python" -m pip download \
    --disable-pip-version-check --dest "$kit/wheels" "$kit"/wheels/byteps_cpp-*.whl
  tar -C "$BUILD/gpu-kit" -czf dist/byteps-gpu-kit.tar.gz byteps-gpu-kit
  ls -l dist/byteps-gpu-kit.tar.gz
}

command_clean() { rm -rf "$BUILD"; }

command_fresh() { source tools/dev/fresh.sh && fresh "$@"; }
