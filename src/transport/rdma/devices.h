// The choice of the device of this host that serves a connection.
//
// Pure: device.h finds out what there is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/rdma/offer.h"

namespace byteps::transport {

struct GidFacts {
  uint32_t index = 0;
  Gid gid{};
  bool is_roce_v2 = false;
};

struct PortFacts {
  uint8_t number = 1;
  bool is_active = true;
  LinkLayer link = LinkLayer::kEthernet;
  std::vector<GidFacts> gids;
  // The network interfaces of this port, such as "ib0".
  std::vector<std::string> interfaces;
};

struct DeviceFacts {
  std::string name;
  bool is_hardware = true;  // Soft-RoCE and siw are software, and slower than TCP
  std::vector<PortFacts> ports;
};

// DeviceWish: the facts of a connection that decide.
struct DeviceWish {
  std::string address;    // the own address of the connection, a literal
  std::string interface;  // the network interface that has this address; empty: not known
  // Devices that may serve, "mlx5_0" or with a port "mlx5_0:1". Empty: all hardware.
  std::vector<std::string> named;
  bool takes_software = false;  // if none is named
  uint32_t lane = 0;            // lanes share the devices that are named
};

struct DeviceChoice {
  std::string device;
  uint8_t port = 1;
  uint32_t gid_index = 0;
  Gid gid{};
  LinkLayer link = LinkLayer::kEthernet;
};

// Returns the GID of an address, IPv4-mapped or IPv6. kInvalidArgument: `address` is no literal.
Result<Gid> GidOfAddress(const std::string& address);

// Returns ok if some device may serve, for whatever address. Errors like ChooseDevice.
Status CheckDevices(const std::vector<DeviceFacts>& devices, const DeviceWish& wish);

// Returns the device and its GID that belong to the connection's own address. On InfiniBand, whose
// ports need no addresses of IP, also a device that is named serves. kUnavailable: there is none;
// the text says why, and what to do.
Result<DeviceChoice> ChooseDevice(const std::vector<DeviceFacts>& devices, const DeviceWish& wish);

}  // namespace byteps::transport
