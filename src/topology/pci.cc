#include "src/topology/pci.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <locale>
#include <string_view>
#include <system_error>
#include <vector>

namespace byteps::topology {
namespace {

namespace pci_fs = std::filesystem;

// The part of a link's bytes that is left for copies, beside the heads of packets.
constexpr double kPayloadShare = 0.8;
// Up to this rate a link sends 10 bits for each byte, later 130 bits for 16 bytes.
constexpr double kOldGigatransfersMax = 5;
// A width that no link has says that the kernel does not know it.
constexpr int kLanesMax = 32;

// Returns the number with which a file begins; 0 if it cannot be read.
double NumberIn(const pci_fs::path& file) {
  std::ifstream stream(file);
  stream.imbue(std::locale::classic());
  double number = 0;
  stream >> number;
  return number;
}

// Returns whether this is a name such as "0000:3b:00.0".
bool IsPciAddress(const std::string& name) {
  return std::ranges::count(name, ':') == 2 && std::ranges::count(name, '.') == 1;
}

// Returns the devices from the root port down to this one.
std::vector<pci_fs::path> ChainTo(const pci_fs::path& device) {
  std::vector<pci_fs::path> chain;
  for (pci_fs::path one = device; IsPciAddress(one.filename().string()); one = one.parent_path()) {
    chain.insert(chain.begin(), one);
  }
  return chain;
}

// Returns the rate of the link between a device and the port above it, which may be unknown. An
// idle GPU lets its link run at a low rate, so the rates that both ends can have count, and not the
// present one.
uint64_t LinkRate(const pci_fs::path& above, const pci_fs::path& device) {
  double speed = 0;
  for (const pci_fs::path& end : {above, device}) {
    const double most = end.empty() ? 0 : NumberIn(end / "max_link_speed");
    if (most > 0) speed = speed > 0 ? std::min(speed, most) : most;
  }
  double lanes = NumberIn(device / "current_link_width");
  if (lanes < 1 || lanes > kLanesMax) lanes = NumberIn(device / "max_link_width");
  if (lanes < 1 || lanes > kLanesMax) return 0;
  const double bits = speed <= kOldGigatransfersMax ? 8.0 / 10 : 128.0 / 130;
  return static_cast<uint64_t>(std::llround(speed * 1e9 * lanes * bits / 8 * kPayloadShare));
}

}  // namespace

std::optional<PciPlace> ReadPciPlace(const pci_fs::path& device) {
  std::error_code error;
  const pci_fs::path real = pci_fs::canonical(device, error);
  if (error) return std::nullopt;
  const std::vector<pci_fs::path> chain = ChainTo(real);
  if (chain.empty()) return std::nullopt;
  PciPlace place;
  if (chain.size() == 1) {
    place.host_link = real.parent_path().filename().string();
    place.host_link_bytes_s = place.own_bytes_s = LinkRate({}, real);
  } else {
    place.host_link = chain[0].filename().string();
    place.host_link_bytes_s = LinkRate(chain[0], chain[1]);
    place.own_bytes_s = LinkRate(chain[chain.size() - 2], real);
  }
  std::ifstream node(real / "numa_node");
  if (!(node >> place.numa_node)) place.numa_node = -1;
  return place;
}

// NVML writes eight digits for the domain, the kernel four.
std::string KernelPciAddress(std::string_view address) {
  std::string name(address);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t colon = name.find(':');
  constexpr size_t kDigits = 4;
  if (colon != std::string::npos && colon > kDigits &&
      name.find_first_not_of('0') >= colon - kDigits) {
    name.erase(0, colon - kDigits);
  }
  return name;
}

}  // namespace byteps::topology
