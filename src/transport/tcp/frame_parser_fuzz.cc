// Fuzz target: any bytes, cut anywhere. Bytes that the parser accepts must be those that the
// sending side would have written; for bytes that it refuses it must give a reason.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/transport/frame_queue.h"
#include "src/transport/tcp/frame_parser.h"
#include "src/transport/tcp/send_batch.h"

namespace byteps::transport {
namespace {

constexpr size_t kLimit = 4096;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Writes the frames of a stream again. Frames come in order, so one place is enough.
class Echo {
 public:
  void OnHeader(FrameParser& parser) {
    frame_.kind = parser.kind();
    frame_.header_bytes = static_cast<uint32_t>(parser.header().size());
    std::copy(parser.header().begin(), parser.header().end(), frame_.header);
    // The place is exactly as large as announced, so that the test sees a byte too many.
    place_ = std::vector<std::byte>(parser.payload_bytes());
    Require(place_.size() <= kLimit);
    parser.SetPlace(place_);
  }

  void OnFrame() {
    FrameQueue queue;
    SendBatch batch(queue);
    frame_.payload = place_;
    queue.Push(frame_);
    iovec parts[2];
    const BufferRef* keeps[2];
    auto gathered = batch.Gather(parts, keeps, SIZE_MAX);
    for (size_t i = 0; i < gathered.parts; ++i) {
      auto* bytes = static_cast<std::byte*>(parts[i].iov_base);
      written_.insert(written_.end(), bytes, bytes + parts[i].iov_len);
    }
  }

  ConstByteSpan written() const { return written_; }

 private:
  OutFrame frame_{};
  std::vector<std::byte> place_;
  std::vector<std::byte> written_;
};

// Returns false when the parser refused.
bool Feed(FrameParser& parser, Echo& echo, ConstByteSpan bytes) {
  size_t straight = std::min(bytes.size(), parser.direct().size());
  std::copy_n(bytes.begin(), straight, parser.direct().begin());
  parser.Received(straight);
  bytes = bytes.subspan(straight);
  for (;;) {
    switch (parser.Next(bytes)) {
      case FrameParser::Event::kMore: Require(bytes.empty()); return true;
      case FrameParser::Event::kBad: Require(!parser.error().empty()); return false;
      case FrameParser::Event::kHeader: echo.OnHeader(parser); break;
      case FrameParser::Event::kFrame: echo.OnFrame(); break;
    }
  }
}

}  // namespace
}  // namespace byteps::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using byteps::transport::Echo;
  using byteps::transport::Feed;
  using byteps::transport::FrameParser;
  if (size == 0) return 0;
  // The first byte is the size of the parts into which the rest is cut.
  size_t part = size_t{data[0]} + 1;
  auto stream = std::as_bytes(std::span(data + 1, size - 1));
  FrameParser parser;
  parser.SetLimits({byteps::transport::kLimit});
  Echo echo;
  for (size_t at = 0; at < stream.size(); at += part) {
    if (!Feed(parser, echo, stream.subspan(at, std::min(part, stream.size() - at)))) break;
  }
  auto written = echo.written();
  byteps::transport::Require(written.size() <= stream.size());
  byteps::transport::Require(std::equal(written.begin(), written.end(), stream.begin()));
  return 0;
}
