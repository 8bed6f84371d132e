# shellcheck shell=bash
# The lane `rdma`: the RDMA transport over real verbs. Debian's kernel has RDMA in software
# (Soft-RoCE), and this machine's kernel perhaps not, so the lane starts Debian's in a small virtual
# machine without privileges. qemu and the kernel are unpacked into build/rdma-vm and never
# installed. The virtual machine shows the files of this one, and has no network to it.

readonly RDMA_VM="$BUILD/rdma-vm"
readonly RDMA_JOB="$RDMA_VM/job"
RDMA_DEVICE="" # --device and --peer
RDMA_PEER=""

# crc32_generic is missing in the list that rdma_rxe has of what it needs.
readonly RDMA_MODULES=(virtio_pci 9p 9pnet_virtio crc32_generic veth bridge rdma_rxe ib_uverbs
  sch_ingress cls_u32 act_gact)

# why_no_rdma_vm: why the virtual machine cannot be made here; nothing if it can.
why_no_rdma_vm() {
  local system="no Debian"
  if [[ -r /etc/os-release ]]; then system=$(source /etc/os-release && echo "$PRETTY_NAME"); fi
  if [[ $(uname -m) != x86_64 ]]; then
    echo "the virtual machine is made for x86-64, and this is $(uname -m)"
  elif [[ $system != "Debian GNU/Linux 12"* ]]; then
    echo "the virtual machine is made of packages of Debian 12, and this is $system"
  fi
}

# unpack_rdma_vm: qemu, busybox and others in system, and in bin what can be called.
unpack_rdma_vm() {
  local apt="$RDMA_VM/apt" libraries program name file
  rm -rf "${RDMA_VM:?}"/{apt,system,bin}
  mkdir -p "$RDMA_VM/bin"
  refresh_own_apt "$apt" && unpack_missing "$apt" tools/apt-rdma.txt "$RDMA_VM/system" || return
  rm -rf "$apt/packages"
  libraries=$(printf '%s:' "$RDMA_VM"/system/{,usr/}lib/x86_64-linux-gnu)
  for name in depmod modprobe busybox cpio qemu-system-x86_64; do
    # kmod is one program with many names; its links lead to where it would be installed.
    file=$name
    if [[ $name == *mod* ]]; then file=kmod; fi
    program=$(first_of "$RDMA_VM/system"/{usr/,}{bin,sbin}/"$file" /{usr/,}{bin,sbin}/"$file")
    if [[ -z $program ]]; then
      echo "No package of tools/apt-rdma.txt has brought $name."
      return 1
    fi
    printf '#!/bin/bash\nexport LD_LIBRARY_PATH=%q\nexec -a %q %q "$@"\n' \
      "${libraries%:}" "$name" "$program" >"$RDMA_VM/bin/$name"
    chmod 755 "$RDMA_VM/bin/$name"
    if [[ $name == busybox ]]; then ln -sf "$program" "$RDMA_VM/busybox"; fi
  done
}

# unpack_rdma_kernel: the newest kernel of Debian 12, and a first file system with the modules. Not
# linux-image-cloud-amd64, which has no Soft-RoCE and no 9p.
unpack_rdma_kernel() {
  local apt="$RDMA_VM/apt" kernel module file image PATH="$RDMA_VM/bin:$PATH"
  rm -rf "${RDMA_VM:?}"/{kernel,initrd,vmlinux}
  mkdir -p "$RDMA_VM"/kernel "$RDMA_VM"/initrd/{bin,dev,host,modules,proc,sys}
  kernel=$(own_apt "$apt" apt-cache depends linux-image-amd64 |
    sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  (cd "$RDMA_VM/kernel" && own_apt "$apt" apt-get download "$kernel" &&
    dpkg -x "$kernel"_*.deb . && rm "$kernel"_*.deb) || return
  depmod -b "$RDMA_VM/kernel" "${kernel#linux-image-}" || return
  for module in "${RDMA_MODULES[@]}"; do
    modprobe -d "$RDMA_VM/kernel" -S "${kernel#linux-image-}" --show-depends "$module" || return
  done | while read -r _ file _; do
    if [[ -e $RDMA_VM/initrd/modules/$(basename "$file") ]]; then continue; fi
    cp "$file" "$RDMA_VM/initrd/modules/"
    basename "$file" >>"$RDMA_VM/initrd/modules/order"
  done
  cp "$RDMA_VM/busybox" "$RDMA_VM/initrd/bin/busybox"
  for file in sh mount mkdir insmod chroot poweroff; do
    ln -s busybox "$RDMA_VM/initrd/bin/$file"
  done
  # The kernel unpacks itself slowly on an emulated processor.
  image=$(first_of "$RDMA_VM"/kernel/boot/vmlinuz-*)
  python3 -c 'if True:
    import lzma, pathlib, sys
    packed = pathlib.Path(sys.argv[1]).read_bytes()
    plain = lzma.LZMADecompressor().decompress(packed[packed.find(b"\xfd7zXZ\0"):])
    pathlib.Path(sys.argv[2]).write_bytes(plain)' "$image" "$RDMA_VM/vmlinux" || return
  rm -rf "$RDMA_VM/kernel" "$apt"
}

# ensure_rdma_vm: two steps.
ensure_rdma_vm() {
  local key
  key=$({ cat tools/apt-rdma.txt tools/dev/{rdma,unpack}.sh && dpkg-query -W -f '${Package} ' &&
    echo "$RDMA_VM ${RDMA_MODULES[*]}"; } | hash_of)
  if [[ ! -e $RDMA_VM/vmlinux ]]; then rm -f "$RDMA_VM/stamp"; fi
  once "$RDMA_VM/stamp" "$key" "qemu and Debian's kernel" rdma-unpack make_rdma_vm
}

make_rdma_vm() { unpack_rdma_vm && unpack_rdma_kernel; }

# in_rdma_vm SECONDS COMMAND: runs it in the virtual machine, in this folder, for at most so long.
# Prints what it says; returns what it returns.
in_rdma_vm() {
  local seconds=$1 command=$2 cores drivers
  mkdir -p "$RDMA_JOB"
  rm -f "$RDMA_JOB"/{code,output,console}
  cp tools/rdma_vm/guest.sh "$RDMA_JOB"
  drivers=$(first_of "$RDMA_VM"/system/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so)
  {
    printf 'export PATH=%q REPO=%q VENV=%q\n' "$PATH" "$REPO" "$VENV"
    # If the machine has no libraries for devices, these are taken. The suffix is libibverbs' own.
    if [[ -n $drivers ]]; then printf 'export IBV_DRIVERS=%q\n' "${drivers%-rdmav*}"; fi
  } >"$RDMA_JOB/settings.sh"
  echo "$command" >"$RDMA_JOB/command.sh"
  cp tools/rdma_vm/init.sh "$RDMA_VM/initrd/init" && chmod 755 "$RDMA_VM/initrd/init" || return
  (cd "$RDMA_VM/initrd" && find . | "$RDMA_VM/bin/cpio" -o -H newc --quiet | gzip -1) \
    >"$RDMA_VM/initrd.gz" || return
  cores=$(nproc)
  timeout "$seconds" "$RDMA_VM/bin/qemu-system-x86_64" \
    -L "$RDMA_VM/system/usr/share/qemu" -L "$RDMA_VM/system/usr/share/seabios" \
    -accel tcg,thread=multi -cpu max -smp "$((cores > 4 ? 4 : cores))" -m 2G \
    -nodefaults -no-user-config -display none -no-reboot -serial stdio \
    -kernel "$RDMA_VM/vmlinux" -initrd "$RDMA_VM/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$RDMA_JOB,mount_tag=job,security_model=none" >"$RDMA_JOB/console" 2>&1 ||
    true
  if [[ -e $RDMA_JOB/output ]]; then cat "$RDMA_JOB/output"; fi
  if [[ ! -e $RDMA_JOB/code ]]; then
    echo "The virtual machine did not get to the end within $seconds s. Its console:"
    cat "$RDMA_JOB/console"
    return 1
  fi
  return "$(<"$RDMA_JOB/code")"
}

# rdma_test NAME PROGRAM FILTER: lines for ctest.
rdma_test() {
  printf 'add_test(%s "%s" "--gtest_filter=%s")\n' "$1" "$BUILD/$2" "$3"
  printf 'set_tests_properties(%s PROPERTIES TIMEOUT 240)\n' "$1"
}

# The parts of the unit tests that need no stand-in for libibverbs. The case that is left out sends
# 60 MB in messages of 4 KB, which takes minutes on an emulated processor.
write_rdma_units() {
  local conformance="Rdma/*/when_moved:Rdma/*/few_small_slots:Rdma/*/at_any_frame"
  conformance+=":-*.APayloadThatIsComingInLeavesDetachedMemoryAlone/few_small_slots"
  mkdir -p "$RDMA_JOB/units"
  {
    rdma_test rdma_contract src/transport/test_rdma "VerbsContractTest.*"
    rdma_test rdma_conformance src/transport/test_rdma_conformance "$conformance"
    rdma_test rdma_cluster tests/cluster/test_cluster "Rdma/Survival.*"
  } >"$RDMA_JOB/units/CTestTestfile.cmake"
}

run_rdma_units() {
  write_rdma_units
  LANE_LOGS+=("$LOGS/rdma-units.log")
  step "contract, conformance and jobs in one process" rdma-units in_rdma_vm 300 \
    "TEST_RDMA_ADDRESS=10.20.0.3 TEST_RDMA_DEVICES=rxe1,rxe3 \
      ctest --test-dir /tmp/job/units -V --no-tests=error -j 2"
}

run_rdma_jobs() {
  local options="-v -ra --timeout=200 --durations=10 -p no:cacheprovider"
  LANE_LOGS+=("$LOGS/rdma-jobs.log" "$RDMA_JOB/jobs.xml")
  rm -f "$RDMA_JOB/jobs.xml"
  step "jobs of real processes" rdma-jobs in_rdma_vm 400 \
    "$VENV/bin/python -m pytest $options --junitxml=/tmp/job/jobs.xml ${DEV_RDMA_TESTS:-} \
      $RDMA_TESTS"
}

# lane_rdma_on DEVICE PEER: the same suites over a device of this machine, and a job with another
# host; writes what has run into docs/rdma.md.
lane_rdma_on() {
  local device=$1 peer=$2 place=/sys/class/infiniband/$1 address column=card more
  read -ra more <<<"${DEV_RDMA_BENCH:-}"
  if [[ -z $peer ]]; then die "lane: --device needs --peer, the address of another host"; fi
  if [[ ! -e $place ]]; then die "lane: this machine has no RDMA device '$device' (ibv_devices)"; fi
  if [[ ! -e $place/device ]]; then column=Soft-RoCE; fi
  ensure_wheel && build gcc "building the tests" test_rdma test_rdma_conformance test_cluster ||
    return
  address=$("$VENV/bin/python" bench/rdma.py --device "$device" --peer "$peer" --address) || return
  write_rdma_units
  LANE_LOGS+=("$LOGS/rdma-units.log")
  step "contract, conformance and jobs in one process over $device, $address" rdma-units \
    env TEST_RDMA_ADDRESS="$address" TEST_RDMA_DEVICES="$device" \
    ctest --test-dir "$RDMA_JOB/units" -V --no-tests=error || return
  step "a job with $peer, over TCP and over RDMA" rdma-peer \
    "$VENV/bin/python" bench/rdma.py --device "$device" --peer "$peer" "${more[@]}" || return
  grep -h "each way" "$LOGS/rdma-peer.log"
  python3 tools/rdma_page.py docs/rdma.md "$column" --figures bench-out/rdma.json \
    --suites "yes, $device, $(date +%F)"
}

lane_rdma() {
  local why status=0
  if [[ -n $RDMA_DEVICE ]]; then
    lane_rdma_on "$RDMA_DEVICE" "$RDMA_PEER"
    return
  fi
  why=$(why_no_rdma_vm)
  if [[ -n $why ]]; then
    skip_part "RDMA in a virtual machine" "$why"
    return
  fi
  ensure_wheel && ensure_rdma_vm &&
    build gcc "building what runs in it" test_rdma test_rdma_conformance test_cluster || return
  run_rdma_units || status=1
  run_rdma_jobs || status=1
  return "$status"
}
