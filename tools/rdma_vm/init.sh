#!/bin/sh
# The first program in the virtual machine of the lane `rdma`, run by busybox: loads the modules,
# shows the host's files at their own places, and runs guest.sh among them.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "/modules/$module" || echo "the kernel does not take $module"
done </modules/order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host
for folder in proc sys dev; do mount --bind "/$folder" "/host/$folder"; done
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /host/dev/shm
mount -t devpts pts /host/dev/pts
for folder in tmp run; do mount -t tmpfs "$folder" "/host/$folder"; done
mkdir -p /host/tmp/job
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none job /host/tmp/job
chroot /host /bin/bash /tmp/job/guest.sh
poweroff -f
