#include "src/transport/rdma/device.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/transport/rdma/verbs.h"

namespace byteps::transport {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

// The list of all devices, which the library gives and takes back.
class DeviceList {
 public:
  explicit DeviceList(const Verbs& verbs) : verbs_(verbs), list_(verbs.get_device_list(&count_)) {}
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (list_ != nullptr) verbs_.free_device_list(list_);
  }
  int size() const { return list_ == nullptr ? 0 : count_; }
  ibv_device* operator[](int i) const { return list_[i]; }
  ibv_device* Find(const std::string& name) const {
    for (int i = 0; i < size(); ++i) {
      if (name == verbs_.get_device_name(list_[i])) return list_[i];
    }
    return nullptr;
  }

 private:
  const Verbs& verbs_;
  int count_ = 0;
  ibv_device** list_;
};

// Old libraries fill only the front of the struct.
bool AskPort(const Verbs& verbs, ibv_context* context, uint8_t number, ibv_port_attr* port) {
  std::memset(port, 0, sizeof(*port));
  return verbs.query_port(context, number, port) == 0;
}

std::vector<GidFacts> GidsOf(const Verbs& verbs, ibv_context* context, uint8_t port, int count) {
  std::vector<GidFacts> gids;
  for (int i = 0; i < count; ++i) {
    ibv_gid_entry entry{};
    auto index = static_cast<uint32_t>(i);
    if (verbs.query_gid_ex(context, port, index, &entry, 0, sizeof(entry)) != 0) continue;
    GidFacts gid{index, {}, entry.gid_type == IBV_GID_TYPE_ROCE_V2};
    std::memcpy(gid.gid.data(), entry.gid.raw, gid.gid.size());
    gids.push_back(gid);
  }
  return gids;
}

std::vector<std::string> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename());
  }
  return names;
}

std::vector<PortFacts> PortsOf(const Verbs& verbs, ibv_context* context) {
  std::vector<PortFacts> ports;
  ibv_device_attr device{};
  if (verbs.query_device(context, &device) != 0) return ports;
  for (uint8_t number = 1; number <= device.phys_port_cnt; ++number) {
    ibv_port_attr attr{};
    if (!AskPort(verbs, context, number, &attr)) continue;
    PortFacts port;
    port.number = number;
    port.is_active = attr.state == IBV_PORT_ACTIVE;
    port.link =
        attr.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kEthernet : LinkLayer::kInfiniBand;
    port.gids = GidsOf(verbs, context, number, attr.gid_tbl_len);
    ports.push_back(std::move(port));
  }
  return ports;
}

}  // namespace

// A device with several ports has an interface for each of them; the kernel does not say which
// belongs to which port other than by its number, from 0.
std::vector<DeviceFacts> ListDevices(const Verbs& verbs, const std::string& sysfs) {
  std::vector<DeviceFacts> all;
  DeviceList list(verbs);
  for (int i = 0; i < list.size(); ++i) {
    DeviceFacts facts;
    facts.name = verbs.get_device_name(list[i]);
    const std::filesystem::path hardware = std::filesystem::path(sysfs) / facts.name / "device";
    std::error_code error;
    facts.is_hardware = std::filesystem::exists(hardware, error);
    if (ibv_context* context = verbs.open_device(list[i])) {
      facts.ports = PortsOf(verbs, context);
      verbs.close_device(context);
    }
    for (PortFacts& port : facts.ports) {
      if (facts.ports.size() == 1) port.interfaces = NamesIn(hardware / "net");
    }
    all.push_back(std::move(facts));
  }
  return all;
}

Result<std::unique_ptr<Device>> Device::Open(const Verbs& verbs, const std::string& name) {
  // tidy-allow(new): the constructor is private.
  std::unique_ptr<Device> device(new Device(verbs, name));
  DeviceList list(verbs);
  ibv_device* found = list.Find(name);
  if (found == nullptr) {
    return Status(StatusCode::kUnavailable,
                  "the RDMA device " + name + " is not there any more; look at ibv_devices");
  }
  device->context_ = verbs.open_device(found);
  if (device->context_ == nullptr) {
    return Status(StatusCode::kUnavailable, "the RDMA device " + name +
                                                " cannot be opened: " + ErrorText(errno) +
                                                "; this process needs to read and write "
                                                "/dev/infiniband/uverbs*");
  }
  Status prepared = device->Prepare();
  if (!prepared.ok()) return prepared;
  return device;
}

Status Device::Prepare() {
  ibv_device_attr limits{};
  int error = verbs_.query_device(context_, &limits);
  if (error == 0) {
    domain_ = verbs_.alloc_pd(context_);
    if (domain_ == nullptr) error = errno;
  }
  if (error == 0) {
    int flags = fcntl(context_->async_fd, F_GETFL);
    if (fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) error = errno;
  }
  if (error != 0) {
    return {StatusCode::kUnavailable, "the RDMA device " + name_ + " does not work: " +
                                          ErrorText(error) + "; look at the kernel's log (dmesg)"};
  }
  completions_max_ = static_cast<size_t>(limits.max_cqe);
  work_max_ = static_cast<size_t>(limits.max_qp_wr);
  return Status::Ok();
}

Device::~Device() {
  if (domain_ != nullptr) verbs_.dealloc_pd(domain_);
  if (context_ != nullptr) verbs_.close_device(context_);
}

uint8_t Device::MtuOf(uint8_t port) const {
  ibv_port_attr attr{};
  return AskPort(verbs_, context_, port, &attr) ? static_cast<uint8_t>(attr.active_mtu) : 0;
}

uint16_t Device::LidOf(uint8_t port) const {
  ibv_port_attr attr{};
  return AskPort(verbs_, context_, port, &attr) ? attr.lid : 0;
}

ibv_mr* Device::Register(std::byte* memory, size_t bytes) const {
  return verbs_.reg_mr(domain_, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
}

void Device::Deregister(ibv_mr* region) const { verbs_.dereg_mr(region); }

uint32_t Device::KeyOf(const ibv_mr* region) { return region->lkey; }

int Device::event_fd() const { return context_->async_fd; }

std::vector<std::string> Device::TakeEvents() {
  std::vector<std::string> lines;
  ibv_async_event event{};
  while (verbs_.get_async_event(context_, &event) == 0) {
    if (event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR) {
      dead_.store(true, std::memory_order_relaxed);
    }
    lines.push_back("the RDMA device " + name_ +
                    " says: " + verbs_.event_type_str(event.event_type));
    verbs_.ack_async_event(&event);
  }
  return lines;
}

}  // namespace byteps::transport
