#include "src/topology/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

namespace byteps::topology {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kCoresMax = 65536;
// A bond of VLANs of devices has depth 3. The limit also ends a circle, which the kernel does not
// allow.
constexpr int kDepthMax = 4;
constexpr std::string_view kLower = "lower_";

template <typename Number>
std::optional<Number> ReadNumber(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the names in a folder; none if it cannot be read.
std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator next(folder, error), end; !error && next != end;
       next.increment(error)) {
    names.push_back(next->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Returns whether this can be the name of an interface: "." and ".." cannot, nor can a name with
// '/'.
bool IsName(const std::string& interface) {
  return !interface.empty() && interface[0] != '.' && interface.find('/') == std::string::npos;
}

std::string NetFolder(const std::string& interface) { return "sys/class/net/" + interface; }

}  // namespace

Cores ParseCores(std::string_view text) {
  Cores cores;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = std::min(part.find('-'), part.size());
    const auto first = ReadNumber<uint32_t>(part.substr(0, dash));
    const auto last = dash == part.size() ? first : ReadNumber<uint32_t>(part.substr(dash + 1));
    if (!first.has_value() || !last.has_value()) continue;
    for (uint32_t core = *first; core <= std::min(*last, kCoresMax - 1); ++core) {
      cores.push_back(core);
    }
  }
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  return cores;
}

std::string FormatCores(const Cores& cores) {
  std::string text;
  for (size_t first = 0; first < cores.size();) {
    size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[first]);
    if (last > first) text += "-" + std::to_string(cores[last]);
    first = last + 1;
  }
  return text;
}

// Returns an empty text if the file cannot be read.
std::string Machine::ReadLine(const std::string& path) const {
  std::ifstream file(fs::path(root_) / path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
  return line;
}

std::vector<NumaNode> Machine::Nodes() const {
  constexpr std::string_view kNode = "node";
  std::vector<NumaNode> nodes;
  const std::string folder = "sys/devices/system/node";
  for (const std::string& name : NamesIn(fs::path(root_) / folder)) {
    if (!name.starts_with(kNode)) continue;
    const auto number = ReadNumber<uint32_t>(std::string_view(name).substr(kNode.size()));
    if (!number.has_value()) continue;
    Cores cores = ParseCores(ReadLine(folder + "/" + name + "/cpulist"));
    if (!cores.empty()) nodes.push_back({*number, std::move(cores)});
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  return nodes;
}

std::vector<std::string> Machine::DevicesOf(const std::string& interface, int depth) const {
  if (!IsName(interface)) return {};
  if (Exists(fs::path(root_) / NetFolder(interface) / "device")) return {interface};
  std::vector<std::string> devices;
  if (depth == kDepthMax) return devices;
  for (const std::string& name : NamesIn(fs::path(root_) / NetFolder(interface))) {
    if (!name.starts_with(kLower)) continue;
    for (std::string& one : DevicesOf(name.substr(kLower.size()), depth + 1)) {
      devices.push_back(std::move(one));
    }
  }
  return devices;
}

uint64_t Machine::LinkMbit(const std::string& interface) const {
  uint64_t sum = 0;
  for (const std::string& device : DevicesOf(interface, 0)) {
    // The file holds -1, or cannot be read, while the speed is unknown.
    const auto mbit = ReadNumber<int64_t>(ReadLine(NetFolder(device) + "/speed"));
    if (mbit.has_value() && *mbit > 0 && *mbit < UINT32_MAX) sum += static_cast<uint64_t>(*mbit);
  }
  return sum;
}

Cores Machine::CoresNear(const std::string& interface) const {
  const std::vector<NumaNode> nodes = Nodes();
  if (nodes.size() < 2) return {};
  std::optional<int> node;
  for (const std::string& device : DevicesOf(interface, 0)) {
    const auto of_device = ReadNumber<int>(ReadLine(NetFolder(device) + "/device/numa_node"));
    // A bond over devices at two nodes is near neither node.
    if (!of_device.has_value() || of_device != node.value_or(*of_device)) return {};
    node = of_device;
  }
  for (const NumaNode& one : nodes) {
    if (node.has_value() && *node >= 0 && one.number == static_cast<uint32_t>(*node)) {
      return one.cores;
    }
  }
  return {};
}

std::optional<PciPlace> Machine::PlaceOf(const std::string& address) const {
  const std::string name = KernelPciAddress(address);
  // An address has no '/', and neither "." nor ".." is one.
  if (name.find(':') == std::string::npos || name.find('/') != std::string::npos) return {};
  return ReadPciPlace(fs::path(root_) / "sys/bus/pci/devices" / name);
}

std::vector<PciPlace> Machine::PlacesOf(const std::string& interface) const {
  std::vector<PciPlace> places;
  for (const std::string& device : DevicesOf(interface, 0)) {
    std::optional<PciPlace> place = ReadPciPlace(fs::path(root_) / NetFolder(device) / "device");
    if (place.has_value()) places.push_back(std::move(*place));
  }
  return places;
}

uint32_t Machine::CoreQuota() const {
  std::string quota, period;
  if (std::string both = ReadLine("sys/fs/cgroup/cpu.max"); !both.empty()) {
    const size_t space = std::min(both.find(' '), both.size());
    quota = both.substr(0, space);
    period = both.substr(std::min(space + 1, both.size()));
  } else {
    quota = ReadLine("sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = ReadLine("sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  const auto used = ReadNumber<int64_t>(quota);
  const auto each = ReadNumber<int64_t>(period);
  if (!used.has_value() || !each.has_value() || *used <= 0 || *each <= 0) return 0;
  return static_cast<uint32_t>(std::min<int64_t>((*used - 1) / *each + 1, kCoresMax));
}

namespace {

// The kernel's set may be larger than cpu_set_t.
class CoreSet {
 public:
  CoreSet() : set_(CPU_ALLOC(kCoresMax)) {
    if (set_ != nullptr) CPU_ZERO_S(bytes(), set_);
  }
  CoreSet(const CoreSet&) = delete;
  CoreSet& operator=(const CoreSet&) = delete;
  ~CoreSet() { CPU_FREE(set_); }
  size_t bytes() const { return CPU_ALLOC_SIZE(kCoresMax); }
  cpu_set_t* get() const { return set_; }

 private:
  cpu_set_t* set_;
};

}  // namespace

Cores AllowedCores() {
  CoreSet set;
  Cores cores;
  if (set.get() == nullptr || ::sched_getaffinity(0, set.bytes(), set.get()) != 0) return cores;
  for (uint32_t core = 0; core < kCoresMax; ++core) {
    if (CPU_ISSET_S(core, set.bytes(), set.get())) cores.push_back(core);
  }
  return cores;
}

uint32_t UsableCores(const Machine& machine) {
  const auto allowed = static_cast<uint32_t>(std::max<size_t>(AllowedCores().size(), 1));
  const uint32_t quota = machine.CoreQuota();
  return quota == 0 ? allowed : std::min(allowed, quota);
}

bool RunOn(const Cores& cores) {
  CoreSet set;
  if (set.get() == nullptr) return false;
  Cores both;
  const Cores allowed = AllowedCores();
  std::set_intersection(cores.begin(), cores.end(), allowed.begin(), allowed.end(),
                        std::back_inserter(both));
  if (both.empty()) return false;
  for (uint32_t core : both) CPU_SET_S(core, set.bytes(), set.get());
  return ::sched_setaffinity(0, set.bytes(), set.get()) == 0;
}

}  // namespace byteps::topology
