# shellcheck shell=bash
# The lane `frameworks`: each framework in a virtual environment of its own, one wheel of byteps
# in all of them. A framework NAME is two things: its packages in tools/requirements-NAME.txt (old
# versions: tools/requirements-NAME-old.txt), and its tests in tests/python/frameworks/NAME/. The
# packages in tools/requirements-NAME-nodeps.txt are installed without what they depend on. Keras is
# with TensorFlow.

readonly FRAMEWORK_TESTS=tests/python/frameworks
FRAMEWORK_VERSIONS=new
FRAMEWORK_NAMES=""

# What `./dev lane frameworks` takes: --versions old,new and --only NAME,NAME. Sets REST.
take_framework_options() {
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
      -*) die "lane: no option '$1'; there are --versions and --only, of the lane frameworks" ;;
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

# test_framework NAME VERSIONS
test_framework() {
  local name=$1 versions=$2 list key
  local place="$VENV-$name-$versions" log="framework-$name-$versions"
  list=$(requirements_of "$name" "$versions")
  if [[ ! -f $list ]]; then
    echo "$name, $versions versions: skipped, there is no $list"
    return
  fi
  key=$(cat tools/requirements-frameworks.txt "${list%.txt}"*.txt | hash_of)
  once "$place/stamp-needs" "$key" "packages of $name, $versions versions" "venv-$log" \
    install_framework "$place" "$list" || return
  once "$place/stamp-byteps" "$(<"$VENV/stamp-byteps")" "byteps beside them" "wheel-$log" \
    install_wheel "$place/bin/python" || return
  LANE_LOGS+=("$LOGS/$log.log")
  step "tests of $name, $versions versions" "$log" "$place/bin/python" -m pytest -v -ra \
    --timeout=300 --durations=10 -n "$(jobs_count)" --dist worksteal "$FRAMEWORK_TESTS/$name"
}

lane_frameworks() {
  local name versions status=0 names=${FRAMEWORK_NAMES:-$(frameworks)}
  ensure_wheel || return
  for name in $names; do
    if [[ ! -d $FRAMEWORK_TESTS/$name ]]; then
      die "lane frameworks: no framework '$name'; there are: $(frameworks | tr '\n' ' ')"
    fi
    for versions in $FRAMEWORK_VERSIONS; do
      test_framework "$name" "$versions" || status=1
    done
  done
  return "$status"
}
