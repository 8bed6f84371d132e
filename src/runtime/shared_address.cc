#include "src/runtime/shared_address.h"

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "src/base/proof.h"

namespace byteps::runtime {
namespace {

constexpr size_t kNameBytes = 16;

}  // namespace

std::string SharedAddress(const JobIdentity& identity, uint64_t incarnation) {
  std::array<std::byte, sizeof(incarnation)> server{};
  for (size_t i = 0; i < server.size(); ++i)
    server[i] = static_cast<std::byte>(incarnation >> 8 * i);
  ProofBytes proof = Proof(identity.secret, "byteps shared memory",
                           std::as_bytes(std::span(identity.job)), server);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string address = "@byteps-";
  for (size_t i = 0; i < kNameBytes; ++i) {
    address += kDigits[std::to_integer<size_t>(proof[i]) >> 4];
    address += kDigits[std::to_integer<size_t>(proof[i]) & 15];
  }
  return address + ":1";
}

}  // namespace byteps::runtime
