#!/usr/bin/env bash
# The whole development interface: `./dev help` lists the commands. Needs bash and git to start;
# installs the rest.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
REPO="$(pwd -P)"
readonly REPO
readonly BUILD="$REPO/build"
readonly LOGS="$BUILD/logs"
readonly WHEELS="$BUILD/wheels"
readonly VENV="${DEV_VENV:-$REPO/.venv}"

# git refuses to list the files of a checkout that another user owns. Not here: what runs is this
# user's choice already. GIT_CONFIG_... says so to what this script starts, and to nobody else.
export GIT_CONFIG_COUNT=$((${GIT_CONFIG_COUNT:-0} + 1))
export "GIT_CONFIG_KEY_$((GIT_CONFIG_COUNT - 1))=safe.directory"
export "GIT_CONFIG_VALUE_$((GIT_CONFIG_COUNT - 1))=$REPO"

# Packages are installed uncompiled (tools/dev/setup.sh): Python must keep what it compiles of them,
# or every test compiles torch again.
unset PYTHONDONTWRITEBYTECODE

source tools/dev/ui.sh
source tools/dev/setup.sh
source tools/dev/build.sh
source tools/dev/frameworks.sh
source tools/dev/lanes.sh
source tools/dev/aarch64.sh
source tools/dev/wheel.sh
source tools/dev/commands.sh

main() {
  local command="${1:-help}"
  if (($#)); then shift; fi
  case "$command" in
    demo | test | lane | bench | sim | spec | fuzz | lint | format | tsan | asan | fresh | setup | \
      wheel | first-sum | docs | clean)
      mkdir -p "$LOGS"
      "command_${command//-/_}" "$@"
      ;;
    help | -h | --help) command_help ;;
    *)
      echo "dev: no command '$command'" >&2
      command_help >&2
      return 2
      ;;
  esac
}

