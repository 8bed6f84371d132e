#include "src/machine/room/word_line.h"

#include <utility>

#include "src/wire/bytes.h"
#include "src/wire/control.h"

namespace byteps::machine {
namespace {

constexpr size_t kLengthBytes = sizeof(uint32_t);
// More than the bytes of the largest control message.
constexpr size_t kPacketBytesMax = wire::kControlBytesMax + 1024;

}  // namespace

void WordLine::Send(std::vector<std::byte> packet) {
  std::vector<std::byte> length(kLengthBytes);
  wire::PutLittle(length.data(), static_cast<uint32_t>(packet.size()));
  packet.insert(packet.begin(), length.begin(), length.end());
  waiting_.push_back(std::move(packet));
}

bool WordLine::Flush() {
  bool put = false;
  while (!waiting_.empty()) {
    ConstByteSpan rest = ConstByteSpan(waiting_.front()).subspan(sent_);
    size_t count = Write(rest);
    put = put || count > 0;
    sent_ += count;
    if (count < rest.size()) return put;
    waiting_.pop_front();
    sent_ = 0;
  }
  return put;
}

// Returns how many of the bytes it has put into the ring. If not all fit, the reader's next reading
// tells it to wake this end.
size_t WordLine::Write(ConstByteSpan bytes) {
  size_t count = 0;
  while (count < bytes.size()) {
    const size_t some = out_.WriteSome(bytes.subspan(count));
    if (some == 0 && out_.Wait()) break;
    count += some;
  }
  return count;
}

// Reads what there is of the packet.
size_t WordLine::Read(ByteSpan room, bool& wake) {
  size_t count = 0;
  while (count < room.size()) {
    const size_t some = in_.ReadSome(room.subspan(count));
    if (some == 0) break;
    count += some;
    wake = in_.TakeWake() || wake;
  }
  return count;
}

Result<std::optional<std::vector<std::byte>>> WordLine::Receive(bool& wake) {
  if (!has_length_) packet_.resize(kLengthBytes);
  while (true) {
    received_ += Read(ByteSpan(packet_).subspan(received_), wake);
    if (in_.broken()) {
      return Status(StatusCode::kProtocol,
                    "a process of this machine has broken the memory that the ranks share: "
                    "restart the job");
    }
    if (received_ < packet_.size()) return std::optional<std::vector<std::byte>>();
    received_ = 0;
    if (has_length_) {
      has_length_ = false;
      return std::optional(std::exchange(packet_, {}));
    }
    uint32_t bytes = wire::GetLittle<uint32_t>(packet_.data());
    if (bytes > kPacketBytesMax) {
      return Status(StatusCode::kProtocol, "a process of this machine announced a packet of " +
                                               std::to_string(bytes) + " bytes: restart the job");
    }
    has_length_ = true;
    packet_.assign(bytes, std::byte{0});
    if (bytes == 0) {
      has_length_ = false;
      return std::optional(std::exchange(packet_, {}));
    }
  }
}

}  // namespace byteps::machine
