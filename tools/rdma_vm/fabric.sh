#!/usr/bin/env bash
# In the virtual machine: four hosts on a switch. Host i has the address 10.20.0.i on the interface
# r<i>, whose other end p<i> is a port of the bridge `switch`, and the RDMA device rxe<i>. Soft-RoCE
# of this kernel knows no network namespaces, so all hosts share one. Rules of routing send what
# leaves an address through its own interface and over the switch, as if the hosts were real.
set -e
HOSTS=(1 2 3 4)

ip link set lo up
ip link add switch mtu 9000 type bridge
ip link set switch up
for i in "${HOSTS[@]}"; do
  # Smaller packets would halve the rate; a device takes this size when it is made.
  ip link add "r$i" mtu 9000 type veth peer name "p$i" mtu 9000
  ip link set "p$i" master switch up
  ip address add "10.20.0.$i/24" dev "r$i"
  ip link set "r$i" up
done

# Packets whose sender is an address of this machine are none of others' tricks here, and only the
# interface that has an address answers for it.
for i in all default r1 r2 r3 r4; do
  for value in accept_local=1 rp_filter=0 arp_ignore=1 arp_announce=2; do
    echo "${value#*=}" >"/proc/sys/net/ipv4/conf/$i/${value%=*}"
  done
done
for i in "${HOSTS[@]}"; do
  ip rule add pref 10 iif "r$i" lookup local
  ip route add 10.20.0.0/24 dev "r$i" src "10.20.0.$i" table "10$i"
  ip rule add pref 20 from "10.20.0.$i" to "10.20.0.$i" iif lo lookup local
  ip rule add pref 30 from "10.20.0.$i" to 10.20.0.0/24 iif lo lookup "10$i"
  # A socket that names no own address: 1 and 2 talk to 3, and 3 and 4 to 1.
  ip rule add pref 40 to "10.20.0.$i" iif lo lookup "10$((i < 3 ? 3 : 1))"
done
ip rule add pref 100 lookup local
ip rule del pref 0

for i in "${HOSTS[@]}"; do rdma link add "rxe$i" type rxe netdev "r$i"; done
for i in "${HOSTS[@]}"; do
  # The device learns its addresses a moment later.
  for _ in $(seq 100); do
    if grep -qs 0a14 "/sys/class/infiniband/rxe$i/ports/1/gids/1"; then break; fi
    sleep 0.05
  done
done
