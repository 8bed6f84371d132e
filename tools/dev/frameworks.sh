# shellcheck shell=bash
# The lane `frameworks`: each framework in a virtual environment of its own, one wheel of byteps
# in all of them. A framework NAME is two things: its packages in tools/requirements-NAME.txt (old
# versions: tools/requirements-NAME-old.txt), and its tests in tests/python/frameworks/NAME/. The
# packages in tools/requirements-NAME-nodeps.txt are installed without what they depend on. Keras is
# with TensorFlow. The tests of torch are those of the lane `python`, which runs them with the torch
# of .venv. So the lane `frameworks` has torch only if somebody asks for it; the lanes `torch-old`
# and `torch-new` run these tests with the oldest and the newest torch.

readonly FRAMEWORK_TESTS=tests/python/frameworks
readonly INTEGRATION_TESTS=tests/python/integrations
readonly TORCH_TESTS="tests/python/adapters/test_torch_*.py tests/python/shipped/test_examples.py
  tests/python/whole_jobs/test_checkpoints.py tests/python/whole_jobs/test_jobs.py"
FRAMEWORK_VERSIONS=""
FRAMEWORK_NAMES=""

# What lanes take: frameworks --versions old,new and --only NAME,NAME; rdma --device NAME and --peer
# ADDRESS. Sets REST.
take_lane_options() {
  REST=()
  while (($#)); do
    case "$1" in
      --versions | --only)
        if (($# < 2)); then die "lane: $1 needs a list, such as old,new"; fi
        if [[ $1 == --only ]]; then
          FRAMEWORK_NAMES=${2//,/ }
        else
          FRAMEWORK_VERSIONS=${2//,/ }
        fi
        shift
        ;;
      --device | --peer)
        if (($# < 2)); then die "lane: $1 needs a name"; fi
        if [[ $1 == --device ]]; then RDMA_DEVICE=$2; else RDMA_PEER=$2; fi
        shift
        ;;
      -*)
        die "lane: no option '$1'; there are --versions and --only, of the lane frameworks, and" \
          "--device and --peer, of the lane rdma"
        ;;
      *) REST+=("$1") ;;
    esac
    shift
  done
}

frameworks() {
  local folder
  for folder in "$FRAMEWORK_TESTS"/*/; do
    folder=$(basename "$folder")
    if [[ -f tools/requirements-$folder.txt ]]; then echo "$folder"; fi
  done
  echo torch
}

# tests_of NAME: the folder or the files.
tests_of() {
  # shellcheck disable=SC2086  # one file per word
  if [[ $1 == torch ]]; then printf '%s\n' $TORCH_TESTS; else echo "$FRAMEWORK_TESTS/$1"; fi
}

# python_limit LIST: a list of old versions without wheels for new Pythons has a line
# `# python <3.12`. Prints the 12 unless this Python is below.
python_limit() {
  local minor
  minor=$(sed -n 's/^# python <3[.]//p' "$1")
  if [[ -n $minor ]] &&
    ! "${DEV_PYTHON:-python3}" -c "import sys; sys.exit(sys.version_info >= (3, $minor))"; then
    echo "$minor"
  fi
}

# requirements_of NAME VERSIONS: the list of packages.
requirements_of() {
  if [[ $2 == new ]]; then
    echo "tools/requirements-$1.txt"
  else
    echo "tools/requirements-$1-$2.txt"
  fi
}

# install_framework PLACE LIST: a new virtual environment. torch comes from the place that setup.sh
# chooses.
install_framework() {
  local install=("$1/bin/python" -m pip install --disable-pip-version-check --no-compile)
  local alone=${2%.txt}-nodeps.txt torch index
  rm -rf "$1"
  "${DEV_PYTHON:-python3}" -m venv "$1" || return
  if torch=$(grep '^torch==' "$2"); then
    index=$(reachable_torch_index) || return
    "${install[@]}" ${index:+--index-url "$index"} "$torch" || return
  fi
  "${install[@]}" -r tools/requirements-frameworks.txt -r "$2" || return
  if [[ -f $alone ]]; then "${install[@]}" --no-deps -r "$alone"; fi
}

# ensure_packages PLACE LIST TEXT LOG: one step; the environment, without byteps.
ensure_packages() {
  local key
  key=$(cat tools/requirements-frameworks.txt "${2%.txt}"*.txt | hash_of)
  once "$1/stamp-needs" "$key" "packages of $3" "venv-$4" install_framework "$1" "$2"
}

# ensure_byteps PLACE LOG: one step; the wheel in the environment.
ensure_byteps() {
  once "$1/stamp-byteps" "$(<"$VENV/stamp-byteps")" "byteps beside them" "wheel-$2" \
    install_wheel "$1/bin/python"
}

# ensure_framework PLACE LIST TEXT LOG: two steps; the environment, and byteps in it.
ensure_framework() { ensure_packages "$@" && ensure_byteps "$1" "$4"; }

# of_framework NAME VERSIONS COMMAND: ensure_packages or ensure_framework for its environment.
of_framework() {
  "$3" "$VENV-$1-$2" "$(requirements_of "$1" "$2")" "$1, $2 versions" "framework-$1-$2"
}

# test_framework NAME VERSIONS [KIND FILE...]: without files, all tests of the framework. The lane
# `matrix` has torch's compiler among them, which takes minutes of a core.
test_framework() {
  local name=$1 versions=$2 kind=${3:-framework} tests=("${@:4}") list limit per_core=3
  local place="$VENV-$name-$versions"
  list=$(requirements_of "$name" "$versions")
  if [[ ! -f $list ]]; then
    skip_part "$name, $versions versions" "there is no $list"
    return
  fi
  limit=$(python_limit "$list")
  if [[ -n $limit ]]; then
    skip_part "$name, $versions versions" \
      "they need Python below 3.$limit (DEV_PYTHON names one)"
    return
  fi
  of_framework "$name" "$versions" ensure_framework || return
  if [[ $kind == matrix ]]; then per_core=1; fi
  if ((${#tests[@]} == 0)); then mapfile -t tests < <(tests_of "$name"); fi
  run_pytest "tests of $name, $versions versions" "$kind-$name-$versions" "$place/bin/python" \
    -n "$(tests_at_a_time "$per_core")" --dist worksteal "${tests[@]}"
}

needs_frameworks() {
  local name
  for name in $(frameworks); do
    if [[ $name != torch ]]; then of_framework "$name" new ensure_packages; fi
  done
}

lane_frameworks() {
  local name versions status=0 all names
  all=$(frameworks | tr '\n' ' ')
  names=${FRAMEWORK_NAMES:-$all}
  if [[ -z $FRAMEWORK_NAMES$FRAMEWORK_VERSIONS ]]; then names=${all/torch /}; fi
  ensure_wheel || return
  for name in $names; do
    if [[ " $all" != *" $name "* ]]; then
      die "lane frameworks: no framework '$name'; there are: $all"
    fi
    for versions in ${FRAMEWORK_VERSIONS:-new}; do
      test_framework "$name" "$versions" || status=1
    done
  done
  return "$status"
}

lane_torch_old() { FRAMEWORK_NAMES=torch FRAMEWORK_VERSIONS=old lane_frameworks; }
lane_torch_new() { FRAMEWORK_NAMES=torch FRAMEWORK_VERSIONS=new lane_frameworks; }

# ensure_integrations: two steps; the environment of the lane, and byteps in it.
ensure_integrations() {
  ensure_framework "$VENV-integrations" tools/requirements-integrations.txt \
    "the lane integrations" integrations
}

# The lane `integrations`: Trainer, Accelerate, Lightning, DeepSpeed and torch's own parallel
# modules, with one backend and the other, in an environment that has all of them. `accelerate
# launch --cpu` needs the lane engines' mpirun.
lane_integrations() {
  local place="$VENV-integrations"
  ensure_wheel && ensure_integrations && ensure_engine_programs || return
  PATH="$ENGINES/bin:$PATH" run_pytest "programs of other libraries" integrations \
    "$place/bin/python" \
    -n "$(jobs_count)" --dist worksteal "$INTEGRATION_TESTS"
}
