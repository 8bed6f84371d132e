// Fuzz target: any bytes as the frames of the handshake. An accepted frame means the same after it
// is written again, and fits the limit of a handshake's frame.
#include <cstdint>
#include <cstdlib>

#include "src/wire/handshake.h"

namespace byteps::wire {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzHello(ConstByteSpan bytes) {
  Result<Hello> hello = DecodeHello(bytes);
  if (!hello.ok() || hello->version != kWireVersion) return;
  std::vector<std::byte> again = EncodeHello(hello.value());
  Require(again.size() <= kHandshakeBytesMax);
  Require(DecodeHello(again).value() == hello.value());
}

void FuzzWelcome(ConstByteSpan bytes) {
  Result<Welcome> welcome = DecodeWelcome(bytes);
  if (!welcome.ok()) return;
  Require(DecodeWelcome(EncodeWelcome(welcome.value())).value() == welcome.value());
}

}  // namespace
}  // namespace byteps::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > byteps::wire::kHandshakeBytesMax) return 0;  // the frame's limit
  byteps::wire::FuzzHello(std::as_bytes(std::span(data, size)));
  byteps::wire::FuzzWelcome(std::as_bytes(std::span(data, size)));
  return 0;
}
