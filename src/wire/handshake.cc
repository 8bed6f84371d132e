#include "src/wire/handshake.h"

#include <algorithm>

#include "src/wire/bytes.h"

namespace byteps::wire {
namespace {

constexpr uint32_t kMagic = 0x31535042;  // "BPS1"
constexpr size_t kHelloFixedBytes = 56;
constexpr size_t kWelcomeFixedBytes = 48;

Status MalformedHandshake(const char* what) {
  return {StatusCode::kProtocol, std::string("malformed ") + what};
}

void PutText(std::vector<std::byte>& out, const std::string& text, size_t bytes_max) {
  size_t bytes = std::min(text.size(), bytes_max);
  std::byte length[2];
  PutLittle(length, static_cast<uint16_t>(bytes));
  out.insert(out.end(), length, length + 2);
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), data, data + bytes);
}

// Reads a text, which must end exactly where the frame ends.
Result<std::string> GetText(ConstByteSpan bytes, const char* what) {
  if (bytes.size() < 2) return MalformedHandshake(what);
  size_t length = GetLittle<uint16_t>(bytes.data());
  if (bytes.size() != 2 + length) return MalformedHandshake(what);
  return std::string(reinterpret_cast<const char*>(bytes.data() + 2), length);
}

bool ValidRole(std::byte role) {
  return static_cast<uint8_t>(role) <= static_cast<uint8_t>(Role::kCoordinator);
}

}  // namespace

std::vector<std::byte> EncodeHello(const Hello& hello) {
  std::vector<std::byte> out(kHelloFixedBytes);
  std::byte* at = out.data();
  PutLittle(at, kMagic);
  PutLittle(at + 4, hello.version);
  at[6] = static_cast<std::byte>(hello.role);
  at[7] = static_cast<std::byte>(hello.wanted_role);
  PutLittle(at + 8, hello.index);
  PutLittle(at + 12, hello.wanted_index);
  PutLittle(at + 16, hello.incarnation);
  PutLittle(at + 24, hello.wanted_incarnation);
  PutLittle(at + 32, hello.generation);
  PutLittle(at + 36, uint32_t{0});
  std::copy(hello.nonce.begin(), hello.nonce.end(), at + 40);
  PutText(out, hello.job, kJobIdBytesMax);
  return out;
}

Result<Hello> DecodeHello(ConstByteSpan bytes) {
  if (bytes.size() < 8 || GetLittle<uint32_t>(bytes.data()) != kMagic)
    return MalformedHandshake("hello");
  Hello hello;
  const std::byte* at = bytes.data();
  hello.version = GetLittle<uint16_t>(at + 4);
  if (hello.version != kWireVersion) return hello;
  if (bytes.size() < kHelloFixedBytes || !ValidRole(at[6]) || !ValidRole(at[7])) {
    return MalformedHandshake("hello");
  }
  hello.role = static_cast<Role>(at[6]);
  hello.wanted_role = static_cast<Role>(at[7]);
  hello.index = GetLittle<uint32_t>(at + 8);
  hello.wanted_index = GetLittle<uint32_t>(at + 12);
  hello.incarnation = GetLittle<uint64_t>(at + 16);
  hello.wanted_incarnation = GetLittle<uint64_t>(at + 24);
  hello.generation = GetLittle<uint32_t>(at + 32);
  std::copy(at + 40, at + 56, hello.nonce.begin());
  Result<std::string> job = GetText(bytes.subspan(kHelloFixedBytes), "hello");
  if (!job.ok()) return job.status();
  hello.job = std::move(job).value();
  if (hello.job.size() > kJobIdBytesMax) return MalformedHandshake("hello");
  return hello;
}

std::vector<std::byte> EncodeWelcome(const Welcome& welcome) {
  std::vector<std::byte> out(kWelcomeFixedBytes);
  std::byte* at = out.data();
  PutLittle(at, kMagic);
  PutLittle(at + 4, kWireVersion);
  at[6] = static_cast<std::byte>(welcome.code);
  PutLittle(at + 8, welcome.incarnation);
  std::copy(welcome.proof.begin(), welcome.proof.end(), at + 16);
  PutText(out, welcome.text, kHandshakeBytesMax - kWelcomeFixedBytes - 2);
  return out;
}

Result<Welcome> DecodeWelcome(ConstByteSpan bytes) {
  if (bytes.size() < kWelcomeFixedBytes || GetLittle<uint32_t>(bytes.data()) != kMagic) {
    return MalformedHandshake("welcome");
  }
  const std::byte* at = bytes.data();
  if (static_cast<uint8_t>(at[6]) > static_cast<uint8_t>(kLastStatusCode)) {
    return MalformedHandshake("welcome");
  }
  Welcome welcome;
  welcome.code = static_cast<StatusCode>(at[6]);
  welcome.incarnation = GetLittle<uint64_t>(at + 8);
  std::copy(at + 16, at + 48, welcome.proof.begin());
  Result<std::string> text = GetText(bytes.subspan(kWelcomeFixedBytes), "welcome");
  if (!text.ok()) return text.status();
  welcome.text = std::move(text).value();
  return welcome;
}

}  // namespace byteps::wire
