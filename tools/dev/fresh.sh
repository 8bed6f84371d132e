# shellcheck shell=bash
# `./dev fresh COMMAND`: the promise of the README, tried. Makes a bare Debian in a folder, clones
# HEAD into it and runs ./dev COMMAND there (fresh_enter.sh).
#
# Taken from this machine: the package mirror and apt's settings (proxy), pip's settings and the
# local folders they name, certificates. Nothing else, so what works there works on a new machine.

fresh_help() {
  cat <<'TEXT'
./dev fresh [--suite bookworm|trixie|noble] [--keep] COMMAND [ARGUMENT...]

Runs `./dev COMMAND` in a bare system made by debootstrap in build/fresh-SUITE (bookworm). Needs
root. Takes the committed state (HEAD). --keep leaves the folder, to look around with chroot.
  DEV_FRESH_MIRROR   package mirror of the suite, if it cannot be read from /etc/apt
TEXT
}

# The lines of /etc/apt in one-line form: "URI SUITE". Knows both formats.
apt_sources() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [[ -f $file ]]; then
      sed -nE 's/^deb +(\[[^]]*\] +)?([^ ]+) +([^ ]+) .*/\2 \3/p' "$file"
    fi
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    if [[ -f $file ]]; then
      awk '/^URIs:/ {uris = $0; sub(/^URIs: */, "", uris)}
           /^Suites:/ {suites = $0; sub(/^Suites: */, "", suites)}
           /^[ \t]*$/ {flush_stanza()}
           END {flush_stanza()}
           function flush_stanza(   u, s, i, j, n, m) {
             n = split(uris, u, " "); m = split(suites, s, " ")
             for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print u[i], s[j]
             uris = ""; suites = ""
           }' "$file"
    fi
  done
}

fresh_bootstrap() {
  local suite=$1 root=$2 mirror=$3
  rm -rf --one-file-system "$root"
  mkdir -p "$(dirname "$root")"
  debootstrap --variant=minbase --include=git "$suite" "$root" ${mirror:+"$mirror"}
}

fresh_copy_settings() {
  local suite=$1 root=$2 uri name file
  local components=main
  if [[ $suite == noble ]]; then components="main universe"; fi
  sed -i "s/ main\$/ $components/" "$root/etc/apt/sources.list"
  apt_sources | while read -r uri name; do
    if [[ $name == "$suite"-* && $uri == http* ]]; then echo "deb $uri $name $components"; fi
  done | sort -u >>"$root/etc/apt/sources.list"
  grep -l '^Acquire' /etc/apt/apt.conf /etc/apt/apt.conf.d/* 2>/dev/null | while read -r file; do
    cp "$file" "$root/etc/apt/apt.conf.d/"
  done || true
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf; do
    if [[ -f $file ]]; then install -D -m 644 "$file" "$root/${file#/}"; fi
  done
  if [[ -f ${PIP_CERT:-} ]]; then install -D -m 644 "$PIP_CERT" "$root/etc/fresh-ca.crt"; fi
}

# The packages that a machine of a user has, and no compiler.
fresh_bootstrap_for_users() {
  local suite=$1 root=$2 mirror=$3
  rm -rf --one-file-system "$root"
  mkdir -p "$(dirname "$root")"
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv \
    "$suite" "$root" ${mirror:+"$mirror"}
}

# fresh_first_sum [--suite NAME]: no checkout, no compiler; the wheel and one script travel.
fresh_first_sum() {
  local suite=bookworm root wheel mirror status=0
  if [[ ${1:-} == --suite ]]; then suite=${2:?--suite needs a name}; fi
  if ((EUID != 0)); then die "first-sum needs root; run: sudo ./dev first-sum"; fi
  wheel=$(built_wheel)
  root="$BUILD/bare-$suite"
  mirror=${DEV_FRESH_MIRROR:-$(apt_sources | awk -v s="$suite" '$2 == s {print $1; exit}')}
  plan_steps 3
  ensure_system tools/apt-fresh.txt
  step "making a bare $suite with Python in ${root#"$REPO/"}" bare-bootstrap \
    fresh_bootstrap_for_users "$suite" "$root" "$mirror"
  fresh_copy_settings "$suite" "$root"
  mkdir -p "$root/byteps"
  cp "$wheel" tools/dev/first_sum.{sh,py} "$root/byteps"
  FRESH_SCRIPT="bash first_sum.sh $(basename "$wheel")" step "first sum in it" bare-first-sum \
    fresh_run "$root" || status=$?
  grep -h "^from the wheel" "$LOGS/bare-first-sum.log" || true
  rm -rf --one-file-system "$root"
  return "$status"
}

# The namespaces end with the command, and with them its processes and mounts. FRESH_QEMU is the
# program that runs those of the root, if they are for ARM. The kernel lets a user namespace say so
# for itself, and nothing of this machine changes.
fresh_run() {
  local user=()
  if [[ -n ${FRESH_QEMU:-} ]]; then user=(--user --map-root-user); fi
  unshare "${user[@]}" --mount --propagation private --pid --fork --kill-child --ipc -- \
    bash tools/dev/fresh_enter.sh "$@"
}

fresh() {
  local suite=bookworm keep="" root mirror status=0 started=$SECONDS
  while [[ ${1:-} == -* ]]; do
    case "$1" in
      --suite) suite=${2:?--suite needs a name} && shift ;;
      --keep) keep=1 ;;
      *) fresh_help && return 2 ;;
    esac
    shift
  done
  if (($# == 0)); then fresh_help && return 2; fi
  if ((EUID != 0)); then
    echo "dev: fresh needs root; run: sudo ./dev fresh $*" >&2
    return 3
  fi
  root="$BUILD/fresh-$suite"
  mirror=${DEV_FRESH_MIRROR:-$(apt_sources | awk -v s="$suite" '$2 == s {print $1; exit}')}
  if [[ -n $(git status --porcelain) ]]; then
    echo "fresh: takes the commit $(git rev-parse --short HEAD); uncommitted changes stay out"
  fi
  plan_steps 4
  ensure_system tools/apt-fresh.txt
  step "making a bare $suite in ${root#"$REPO/"}" fresh-bootstrap \
    fresh_bootstrap "$suite" "$root" "$mirror"
  fresh_copy_settings "$suite" "$root"
  step "cloning HEAD into it" fresh-clone \
    git clone -q --no-hardlinks "$REPO" "$root/byteps"
  step_done "in the fresh system: ./dev $*"
  fresh_run "$root" "$@" || status=$?
  if [[ -z $keep ]]; then rm -rf --one-file-system "$root"; fi
  echo "fresh: ./dev $* ended with status $status after $((SECONDS - started)) s"
  return "$status"
}
