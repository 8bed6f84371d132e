// Fuzz target: any bytes as the head of a message, an offer or a refusal. Bytes that are read
// without an error must be those that the sending side would have written.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/transport/rdma/message.h"
#include "src/transport/rdma/offer.h"

namespace byteps::transport {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void ReadHead(ConstByteSpan bytes) {
  if (bytes.size() < kMessageHeadBytes + 4) return;
  uint32_t message_bytes = 0;
  std::memcpy(&message_bytes, bytes.data(), 4);
  auto in = bytes.subspan(4).first<kMessageHeadBytes>();
  auto head = DecodeMessageHead(in, message_bytes);
  if (!head.ok()) return;
  Require(head->stream_bytes <= kHeadStreamBytesMax);
  Require(head->payload_bytes + kMessageHeadBytes == message_bytes);
  std::array<std::byte, kMessageHeadBytes> again;
  std::copy(in.begin(), in.end(), again.begin());
  EncodeMessageHead(head.value(), again);
  Require(std::equal(in.begin(), in.end(), again.begin()));
}

void ReadOffer(ConstByteSpan bytes) {
  auto offer = DecodeOffer(bytes);
  if (!offer.ok()) return;
  auto again = EncodeOffer(offer.value());
  Require(std::equal(bytes.begin(), bytes.end(), again.begin(), again.end()));
}

void ReadDecline(ConstByteSpan bytes) {
  auto decline = DecodeDecline(bytes);
  if (!decline.ok()) return;
  Require(decline->text.size() <= kDeclineTextBytesMax);
  auto again = DecodeDecline(EncodeDecline(decline.value()));
  Require(again.ok() && again.value() == decline.value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: ReadHead(bytes); break;
    case 1: ReadOffer(bytes); break;
    default: ReadDecline(bytes);
  }
  return 0;
}

}  // namespace byteps::transport
