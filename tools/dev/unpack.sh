# shellcheck shell=bash
# Packages of Debian that are unpacked into a folder of build/ and never installed.

# own_apt FOLDER COMMAND...: a program of apt with lists and archives of its own, in the folder. So
# it needs no root, and changes nothing that belongs to the machine.
own_apt() {
  local folder=$1 program=$2
  shift 2
  "$program" -q -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Retries=3 \
    -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" "$@"
}

# refresh_own_apt FOLDER
refresh_own_apt() {
  mkdir -p "$1"/{lists,cache/archives}/partial
  own_apt "$1" apt-get update
}

# unpack_missing APT LIST ROOT: unpacks into ROOT what apt would install for a list of packages:
# those that the machine does not have, and what they need.
unpack_missing() {
  local apt=$1 list=$2 root=$3 packages wanted file
  wanted=$(packages_of "$list")
  # shellcheck disable=SC2086  # one package per word
  packages=$(own_apt "$apt" apt-get install --simulate --no-install-recommends --no-upgrade \
    $wanted | sed -n 's/^Inst \([^ ]*\) .*/\1/p') || return
  mkdir -p "$root" "$apt/packages"
  if [[ -z $packages ]]; then return; fi
  # shellcheck disable=SC2086  # one package per word
  (cd "$apt/packages" && own_apt "$apt" apt-get download $packages) || return
  for file in "$apt"/packages/*.deb; do dpkg -x "$file" "$root" || return; done
}

# first_of FILE...: prints the whole path of the first of these files that is there.
first_of() {
  local file
  for file in "$@"; do
    if [[ -e $file ]]; then
      realpath -s "$file"
      return
    fi
  done
}
