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

# The kernel hands programs for ARM to qemu, which it opens now: the root does not have it. The text
# is what every ELF file for 64-bit ARM begins with, and which of its bits count.
register_qemu() {
  local zeros='\x00\x00\x00\x00\x00\x00\x00\x00' ones='\xff\xff\xff\xff\xff\xff\xff'
  mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
  printf ':arm:M::%s:%s:%s:F' "\\x7fELF\\x02\\x01\\x01\\x00$zeros\\x02\\x00\\xb7\\x00" \
    "$ones\\x00$ones\\xff\\xfe\\xff\\xff\\xff" "$FRESH_QEMU" >/proc/sys/fs/binfmt_misc/register
}

enter() {
  local root=$1 folder variable
  local environment=(HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  shift
  mount --bind "$root" "$root" # unshare, in a test, wants the root to be a mount
  if [[ -n ${FRESH_QEMU:-} ]]; then register_qemu; fi
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
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
