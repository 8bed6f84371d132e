# shellcheck shell=bash
# The lane `engines`: the tests that need sshd, Slurm, Open MPI or Ray. The programs come out of
# Debian's packages, which are unpacked into build/engines and never installed: Debian would start
# them as services. The tests start them as plain processes. Ray has a virtual environment of its
# own.

readonly ENGINES="$BUILD/engines"
readonly ENGINES_ROOT="$ENGINES/root"
readonly RAY="$VENV-ray"

# write_program NAME LINE COMMAND...: bin/NAME is a script, the line and the command.
write_program() {
  local file="$ENGINES/bin/$1"
  printf '#!/bin/sh\n%s\nexec %s "$@"\n' "$2" "${*:3}" >"$file"
  chmod 755 "$file"
}

# wrap NAME WORDS [ARGUMENT...]: bin/NAME starts the unpacked program with the unpacked libraries,
# the variables of WORDS and the arguments. If the program was not unpacked, the machine has it.
# Debian gives some programs a suffix, and an installation makes a link without it. The link is made
# here, because Slurm's daemons look at their own names.
wrap() {
  local name=$1 variables=$2 found program libraries
  found=$(first_of usr/{bin,sbin}/"$name"{,-wlm,.openmpi})
  shift 2
  if [[ -z $found ]]; then return; fi
  program="$(dirname "$found")/$name"
  if [[ $found != "$program" ]]; then ln -sf "$(basename "$found")" "$program"; fi
  libraries=$(printf ':%s' "$PWD"/{,usr/}lib/*-linux-gnu{,/slurm-wlm})
  libraries="${libraries#:}\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
  write_program "$name" "export LD_LIBRARY_PATH=\"$libraries\" $variables" "$program" "$@"
}

# wrap_all: in the folder with the unpacked files.
wrap_all() {
  local name file sshd=()
  for name in munged scancel sinfo slurmctld slurmstepd srun ssh ssh-keygen; do
    wrap "$name" ""
  done
  wrap slurmd "" -d "$ENGINES/bin/slurmstepd"
  wrap mpirun "OPAL_PREFIX=$PWD/usr PMIX_INSTALL_PREFIX=$(first_of usr/lib/*-linux-gnu/pmix2)"
  # If root starts sshd, it wants a user `sshd`. An installation makes this user; here only sshd
  # sees it.
  { getent passwd && getent passwd "$EUID" && echo "sshd:x:65533:65534::/run/sshd:/bin/false"; } \
    >"$ENGINES/passwd"
  getent group >"$ENGINES/group"
  # Newer versions of sshd consist of several programs.
  for name in session auth; do
    file=$(first_of "usr/lib/openssh/sshd-$name")
    if [[ -n $file ]]; then sshd+=(-o "Sshd${name^}Path=$file"); fi
  done
  wrap sshd "LD_PRELOAD=$(first_of usr/lib/*-linux-gnu/libnss_wrapper.so) \
NSS_WRAPPER_PASSWD=$ENGINES/passwd NSS_WRAPPER_GROUP=$ENGINES/group" "${sshd[@]}"
}

# unpack_engines: the programs in bin, what they need in root.
unpack_engines() {
  rm -rf "$ENGINES"
  mkdir -p "$ENGINES/bin"
  refresh_own_apt "$ENGINES/apt" &&
    unpack_missing "$ENGINES/apt" tools/apt-engines.txt "$ENGINES_ROOT" || return
  (cd "$ENGINES_ROOT" && wrap_all) && rm -rf "$ENGINES/apt"
}

# ensure_engine_programs: one step; sshd, Slurm and Open MPI in $ENGINES/bin.
ensure_engine_programs() {
  local key
  if command -v apt-get >/dev/null; then
    # What must be unpacked depends on what the machine has.
    key=$({ cat tools/apt-engines.txt tools/dev/{engines,unpack}.sh &&
      dpkg-query -W -f '${Package} ' && echo "$ENGINES"; } | hash_of)
    once "$ENGINES/stamp" "$key" "sshd, Slurm and Open MPI" engines-unpack unpack_engines || return
  else
    step_done "sshd, Slurm and Open MPI: this is no Debian or Ubuntu; the machine's own are taken"
  fi
}

needs_engines() {
  ensure_engine_programs && ensure_packages "$RAY" tools/requirements-ray.txt Ray ray
}

# ensure_engines: the steps before the tests.
ensure_engines() {
  needs_engines && ensure_byteps "$RAY" ray || return
  mkdir -p "$ENGINES/bin"
  write_program ray-python "" "$RAY/bin/python"
}

# More tests at a time than there are cores: the launchers of others wait most of their time. Each
# process of pytest imports all files that it gets, so it gets those that can have such tests only.
lane_engines() {
  local files
  ensure_wheel && ensure_engines || return
  mapfile -t files < <(grep -rlwE --include='test_*.py' \
    --exclude-dir={frameworks,integrations,seeing,soft_roce} 'engines?' tests/python)
  PATH="$ENGINES/bin:$PATH" run_pytest "tests with them" engines "$VENV/bin/python" \
    -n "$(tests_at_a_time 4)" --dist worksteal -m engine "${files[@]}"
}
