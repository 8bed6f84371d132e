# shellcheck shell=bash
# `./dev fresh COMMAND`: the promise of the README, tried. Makes a bare Debian in a folder, clones HEAD
# into it and runs ./dev COMMAND there. All mounts live in a mount namespace of their own, so they
# end with the command, however it ends.
#
# Taken from this machine: the package mirror and apt's settings (proxy), pip's settings and the local
# folders they name, certificates. Nothing else, so what works there works on a new machine.

fresh_help() {
  cat <<'TEXT'
./dev fresh [--suite bookworm|trixie|noble] [--keep] COMMAND [ARGUMENT...]

Runs `./dev COMMAND` in a bare system made by debootstrap in build/fresh-SUITE (bookworm). Needs root.
Takes the committed state (HEAD). --keep leaves the folder, to look around with chroot.
  BYTEPS_FRESH_MIRROR   package mirror of the suite, if it cannot be read from /etc/apt
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

# Folders of this machine that pip's settings name: find-links and file:// indexes. An index keeps
# its files beside it, so its parent counts.
pip_folders() {
  local path
  { env | grep -E '^PIP_' || true; cat /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf \
    2>/dev/null || true; } | grep -oE '(file://)?/[^ =,]+' | sed 's,^file://,,' |
    while IFS= read -r path; do
      if [[ $path == */simple || $path == */simple/ ]]; then path=$(dirname "$path"); fi
      if [[ -d $path && $path != / ]]; then echo "$path"; fi
    done | sort -u
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

fresh_clone() {
  local root=$1
  git clone -q --no-hardlinks "$REPO" "$root/byteps"
}

# Runs inside the mount and process namespace: mounts, then the command in the new root.
fresh_enter() {
  local root=$1 folder variable
  local environment=(HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  shift
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/tmp"
  mount -t tmpfs tmpfs "$root/run"
  pip_folders | while IFS= read -r folder; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
    mount -o remount,bind,ro "$root$folder"
  done
  while IFS= read -r variable; do
    environment+=("$variable")
  done < <(env | grep -iE '^(PIP_[A-Z_]+|https?_proxy|no_proxy|BYTEPS_(TORCH|JOBS|SIM)[A-Z_]*)=')
  if [[ -f $root/etc/fresh-ca.crt ]]; then
    environment+=(PIP_CERT=/etc/fresh-ca.crt SSL_CERT_FILE=/etc/fresh-ca.crt)
  fi
  exec chroot "$root" env -i "${environment[@]}" bash -c 'cd /byteps && exec ./dev "$@"' dev "$@"
}

fresh_run() {
  local root=$1
  shift
  unshare --mount --propagation private --pid --fork --kill-child --ipc -- \
    bash -c 'set -euo pipefail; REPO=$1; source "$REPO/tools/dev/fresh.sh"; shift
      fresh_enter "$@"' fresh "$REPO" "$root" "$@"
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
  mirror=${BYTEPS_FRESH_MIRROR:-$(apt_sources | awk -v suite="$suite" '$2 == suite {print $1; exit}')}
  if [[ -n $(git status --porcelain) ]]; then
    echo "fresh: takes the commit $(git rev-parse --short HEAD); uncommitted changes stay out"
  fi
  plan_steps 4
  ensure_system tools/apt-fresh.txt
  step "making a bare $suite in ${root#"$REPO/"}" fresh-bootstrap \
    fresh_bootstrap "$suite" "$root" "$mirror"
  fresh_copy_settings "$suite" "$root"
  step "cloning HEAD into it" fresh-clone fresh_clone "$root"
  step_done "in the fresh system: ./dev $*"
  fresh_run "$root" "$@" || status=$?
  if [[ -z $keep ]]; then rm -rf --one-file-system "$root"; fi
  echo "fresh: ./dev $* ended with status $status after $((SECONDS - started)) s"
  return "$status"
}
