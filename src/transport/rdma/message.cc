#include "src/transport/rdma/message.h"

#include <string>

#include "src/wire/bytes.h"

namespace byteps::transport {
namespace {

constexpr size_t kHeadNonceAt = kHeadStreamAt + kHeadStreamBytesMax;
static_assert(kHeadNonceAt + sizeof(uint64_t) == kMessageHeadBytes);

Status BadMessage(const std::string& what) {
  return {StatusCode::kProtocol, "it sent a message over RDMA " + what};
}

}  // namespace

void EncodeMessageHead(const MessageHead& head, std::span<std::byte, kMessageHeadBytes> out) {
  wire::PutLittle(out.data(), static_cast<uint16_t>(head.stream_bytes));
  wire::PutLittle(out.data() + 2, uint16_t{0});
  wire::PutLittle(out.data() + 4, static_cast<uint32_t>(head.payload_bytes));
  wire::PutLittle(out.data() + 8, head.returned);
  wire::PutLittle(out.data() + 12, head.number);
  wire::PutLittle(out.data() + kHeadNonceAt, head.nonce);
}

Result<MessageHead> DecodeMessageHead(std::span<const std::byte, kMessageHeadBytes> in,
                                      size_t message_bytes) {
  if (message_bytes < kMessageHeadBytes) {
    return BadMessage("of " + std::to_string(message_bytes) + " bytes, which is less than a head");
  }
  MessageHead head;
  head.stream_bytes = wire::GetLittle<uint16_t>(in.data());
  head.payload_bytes = wire::GetLittle<uint32_t>(in.data() + 4);
  head.returned = wire::GetLittle<uint32_t>(in.data() + 8);
  head.number = wire::GetLittle<uint32_t>(in.data() + 12);
  head.nonce = wire::GetLittle<uint64_t>(in.data() + kHeadNonceAt);
  if (wire::GetLittle<uint16_t>(in.data() + 2) != 0)
    return BadMessage("with reserved bytes that are not 0");
  if (head.stream_bytes > kHeadStreamBytesMax) {
    return BadMessage("with " + std::to_string(head.stream_bytes) +
                      " bytes in its head, more than fit");
  }
  if (head.payload_bytes != message_bytes - kMessageHeadBytes) {
    return BadMessage("that announces " + std::to_string(head.payload_bytes) + " bytes and has " +
                      std::to_string(message_bytes - kMessageHeadBytes));
  }
  if (head.number != 0 && head.nonce != 0) return BadMessage("with a nonce that is not the first");
  return head;
}

}  // namespace byteps::transport
