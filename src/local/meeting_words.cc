#include "src/local/meeting_words.h"

#include <algorithm>
#include <cstring>

namespace byteps::local {
namespace {

constexpr size_t kTextBytesMax = 2048;

std::vector<std::byte> Begin(MeetingWord word, size_t bytes_max) {
  std::vector<std::byte> packet;
  packet.reserve(1 + bytes_max);
  packet.push_back(static_cast<std::byte>(word));
  return packet;
}

template <typename Number>
void Put(std::vector<std::byte>& bytes, Number number) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    bytes.push_back(static_cast<std::byte>(number >> (8 * i) & 0xff));
  }
}

void PutText(std::vector<std::byte>& bytes, std::string_view text, size_t bytes_max) {
  for (char one : text.substr(0, bytes_max)) bytes.push_back(static_cast<std::byte>(one));
}

// Reads a number from the front; missing bytes count as zero.
template <typename Number>
Number Take(ConstByteSpan& bytes) {
  uint64_t number = 0;
  size_t count = std::min(sizeof(Number), bytes.size());
  for (size_t i = 0; i < count; ++i) number |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  bytes = bytes.subspan(count);
  return static_cast<Number>(number);
}

std::string TextOf(ConstByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool IsWord(MeetingWord word, ConstByteSpan packet) {
  return !packet.empty() && packet[0] == static_cast<std::byte>(word);
}

constexpr size_t kHelloBytesMin = 1 + 4 + 4 + 4 + 8 + sizeof(MeetingNonce);

}  // namespace

std::vector<std::byte> EncodeMeetingHello(const MeetingHello& hello) {
  std::vector<std::byte> bytes = Begin(MeetingWord::kHello, kHelloBytesMin + kTermsBytesMax);
  Put(bytes, hello.version);
  Put(bytes, hello.rank);
  Put(bytes, hello.size);
  Put(bytes, hello.memory_bytes);
  bytes.insert(bytes.end(), hello.nonce.begin(), hello.nonce.end());
  PutText(bytes, hello.terms, kTermsBytesMax);
  return bytes;
}

std::vector<std::byte> EncodeMeetingWord(MeetingWord word, ConstByteSpan bytes) {
  std::vector<std::byte> packet = Begin(word, bytes.size());
  packet.insert(packet.end(), bytes.begin(), bytes.end());
  return packet;
}

std::vector<std::byte> EncodeMeetingRefusal(const Status& why) {
  std::vector<std::byte> bytes = Begin(MeetingWord::kRefusal, 4 + kTextBytesMax);
  Put(bytes, static_cast<uint32_t>(why.code()));
  PutText(bytes, why.message(), kTextBytesMax);
  return bytes;
}

std::optional<MeetingHello> DecodeMeetingHello(ConstByteSpan packet) {
  if (!IsWord(MeetingWord::kHello, packet) || packet.size() < kHelloBytesMin) return {};
  ConstByteSpan rest = packet.subspan(1);
  MeetingHello hello;
  hello.version = Take<uint32_t>(rest);
  hello.rank = Take<uint32_t>(rest);
  hello.size = Take<uint32_t>(rest);
  hello.memory_bytes = Take<uint64_t>(rest);
  std::memcpy(hello.nonce.data(), rest.data(), hello.nonce.size());
  hello.terms = TextOf(rest.subspan(hello.nonce.size()));
  return hello;
}

std::optional<ConstByteSpan> DecodeMeetingWord(MeetingWord word, ConstByteSpan packet,
                                               size_t bytes) {
  if (!IsWord(word, packet) || packet.size() != bytes + 1) return {};
  return packet.subspan(1);
}

std::optional<Status> DecodeMeetingRefusal(ConstByteSpan packet) {
  if (!IsWord(MeetingWord::kRefusal, packet) || packet.size() < 5) return {};
  ConstByteSpan rest = packet.subspan(1);
  uint32_t code = Take<uint32_t>(rest);
  bool is_known = code != 0 && code <= static_cast<uint32_t>(kLastStatusCode);
  return Status(is_known ? static_cast<StatusCode>(code) : StatusCode::kProtocol, TextOf(rest));
}

}  // namespace byteps::local
