// The options of the RDMA transport, and what it tells its user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/time.h"

namespace byteps::transport {

// RdmaOutcome: how the attempt of one connection to change to RDMA ended.
struct RdmaOutcome {
  std::string peer;   // "10.0.0.3:4711"
  std::string own;    // the own address of the connection
  bool over = false;  // the connection goes over RDMA, through `device`
  std::string device;
  bool peer_says = false;  // `why` comes from the peer
  std::string why;         // it stays on TCP
};

struct RdmaOptions {
  // Data connections shall change to RDMA. If this is false, the process loads no library, and
  // declines what other processes offer.
  bool wanted = false;
  std::string library = "libibverbs.so.1";  // a name or a path
  // Devices that may serve, "mlx5_0" or with a port "mlx5_0:1"; empty: all hardware.
  std::vector<std::string> devices;
  // RDMA in software, which is slower than TCP, may serve if no device is named.
  bool takes_software = false;
  uint32_t slots = 16;  // of a connection, fewer if there is no memory for them
  size_t slot_bytes = size_t{32} * 1024;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  // The limit of the memory that devices reach, of all connections together.
  size_t buffer_bytes = size_t{256} << 20;
  // The limit of the time from an offer until messages have passed in both directions.
  Duration proof_limit = seconds(5);
  // After RDMA with a host has failed, its connections stay on TCP for so long.
  Duration pause = seconds(60);
  // Called for each attempt of a connection, and with lines about devices for people, on any loop's
  // thread. May be empty.
  std::function<void(const RdmaOutcome&)> on_outcome;
  std::function<void(const std::string&)> on_device_event;

  // For tests: the accepting end offers at once, and not when the connection has moved; and a
  // switch waits while this function returns true, which is asked before each write.
  bool offers_at_once = false;
  std::function<bool()> holds_switch;
};

}  // namespace byteps::transport
