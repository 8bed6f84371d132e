#!/usr/bin/env bash
# Second half of `./dev fresh`: fresh_enter.sh ROOT COMMAND... mounts what a system needs in ROOT
# and runs ./dev COMMAND there, or the line in FRESH_SCRIPT. Started in a mount and process
# namespace of its own.
set -euo pipefail

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

enter() {
  local root=$1 folder variable
  local environment=(HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  shift
  mount --bind "$root" "$root" # unshare, in a test, wants the root to be a mount
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
  done < <(env | grep -iE '^(PIP_[A-Z_]+|https?_proxy|no_proxy|DEV_(TORCH|JOBS|SIM)[A-Z_]*)=')
  if [[ -f $root/etc/fresh-ca.crt ]]; then
    environment+=(PIP_CERT=/etc/fresh-ca.crt SSL_CERT_FILE=/etc/fresh-ca.crt)
  fi
  cd "$root"
  exec chroot . env -i "${environment[@]}" \
    bash -c "cd /byteps && exec ${FRESH_SCRIPT:-./dev ${*@Q}}"
}

enter "$@"
