#include "src/transport/tcp/frame_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/transport/frame_queue.h"
#include "src/transport/tcp/own_frames.h"
#include "src/transport/tcp/send_batch.h"

namespace byteps::transport {
namespace {

struct Seen {
  uint8_t kind;
  std::string header;
  std::string payload;
  friend bool operator==(const Seen&, const Seen&) = default;
};

OutFrame FrameOf(const Seen& seen) {
  OutFrame frame;
  frame.kind = seen.kind;
  frame.header_bytes = static_cast<uint32_t>(seen.header.size());
  std::memcpy(frame.header, seen.header.data(), seen.header.size());
  frame.payload = std::as_bytes(std::span(seen.payload));
  return frame;
}

// Returns the bytes that the sending side makes of `frames`.
std::vector<std::byte> Encode(const std::vector<Seen>& frames) {
  FrameQueue queue;
  SendBatch batch(queue);
  for (const Seen& frame : frames) queue.Push(FrameOf(frame));
  std::vector<std::byte> stream;
  while (!batch.empty()) {
    iovec parts[4];
    const BufferRef* keeps[4];
    auto gathered = batch.Gather(parts, keeps, 1000);
    for (size_t i = 0; i < gathered.parts; ++i) {
      auto* bytes = static_cast<std::byte*>(parts[i].iov_base);
      stream.insert(stream.end(), bytes, bytes + parts[i].iov_len);
    }
    batch.Written(gathered.bytes);
  }
  return stream;
}

// Feeds a parser as a socket does: first into direct(), the rest through a buffer.
class Reader {
 public:
  explicit Reader(size_t limit) { parser_.SetLimits({limit}); }

  bool Feed(ConstByteSpan bytes, bool use_direct) {
    if (use_direct) {
      size_t straight = std::min(bytes.size(), parser_.direct().size());
      std::copy_n(bytes.begin(), straight, parser_.direct().begin());
      parser_.Received(straight);
      bytes = bytes.subspan(straight);
    }
    for (;;) {
      switch (parser_.Next(bytes)) {
        case FrameParser::Event::kMore: EXPECT_TRUE(bytes.empty()); return true;
        case FrameParser::Event::kBad: return false;
        case FrameParser::Event::kHeader: {
          auto* text = reinterpret_cast<const char*>(parser_.header().data());
          seen.push_back({parser_.kind(), std::string(text, parser_.header().size()),
                          std::string(parser_.payload_bytes(), '\0')});
          parser_.SetPlace(std::as_writable_bytes(std::span(seen.back().payload)));
          break;
        }
        case FrameParser::Event::kFrame: ++whole; break;
      }
    }
  }

  const FrameParser& parser() const { return parser_; }
  std::vector<Seen> seen;
  size_t whole = 0;

 private:
  FrameParser parser_;
};

std::vector<Seen> RandomFrames(std::mt19937& random) {
  std::vector<Seen> frames(random() % 8 + 1);
  for (Seen& frame : frames) {
    frame.kind = static_cast<uint8_t>(1 + random() % 255);
    frame.header.assign(random() % (kHeaderBytesMax + 1), static_cast<char>('a' + random() % 26));
    const size_t payload_bytes_max = IsOwnKind(frame.kind) ? kOwnPayloadBytesMax : 3000;
    frame.payload.assign(random() % 4 == 0 ? 0 : random() % (payload_bytes_max + 1),
                         static_cast<char>('a' + random() % 26));
  }
  return frames;
}

TEST(FrameParserTest, ReadsWhatWasWrittenHoweverItIsCut) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    auto frames = RandomFrames(random);
    auto stream = Encode(frames);
    Reader reader(3000);
    // The vector of frames must not move while a payload is being received.
    reader.seen.reserve(frames.size());
    for (size_t at = 0; at < stream.size();) {
      size_t part = std::min<size_t>(stream.size() - at, random() % (random() % 2 ? 4 : 2000) + 1);
      ASSERT_TRUE(reader.Feed(ConstByteSpan(stream).subspan(at, part), random() % 2 == 0));
      at += part;
    }
    ASSERT_EQ(reader.seen, frames) << "round " << round;
    ASSERT_EQ(reader.whole, frames.size());
  }
}

TEST(FrameParserTest, AFrameIsReportedAsSoonAsItsLastByteIsThere) {
  auto stream = Encode({{1, "h", "payload"}});
  Reader reader(100);
  reader.seen.reserve(1);
  EXPECT_TRUE(reader.Feed(ConstByteSpan(stream).first(stream.size() - 1), false));
  EXPECT_EQ(reader.whole, 0u);
  EXPECT_EQ(reader.parser().direct().size(), 1u);
  EXPECT_TRUE(reader.Feed(ConstByteSpan(stream).last(1), true));
  EXPECT_EQ(reader.whole, 1u);
  EXPECT_TRUE(reader.parser().direct().empty());
}

TEST(FrameParserTest, RefusesAPrefixThatNoCorrectPeerSends) {
  auto refuses = [](std::vector<int> prefix, const char* text) {
    std::vector<std::byte> bytes;
    for (int value : prefix) bytes.push_back(static_cast<std::byte>(value));
    Reader reader(1000);
    EXPECT_FALSE(reader.Feed(bytes, false));
    EXPECT_NE(reader.parser().error().find(text), std::string::npos) << reader.parser().error();
  };
  refuses({0, 0, 0, 0, 0, 0, 5, 1}, "reserved byte that is 1");
  refuses({0, 0, 0, 0, 129, 0, 5, 0}, "129");
  refuses({0, 0, 0, 0, 0, 1, 5, 0}, "256");
  refuses({233, 3, 0, 0, 0, 0, 5, 0}, "1001");
  refuses({0, 0, 0, 128, 0, 0, 5, 0}, "2147483648");
  refuses({0, 0, 0, 0, 0, 0, 0, 0}, "kind 0");
  refuses({1, 2, 0, 0, 0, 0, 240, 0}, "513 bytes, more than the 512 allowed");
}

TEST(FrameParserTest, GoldenBytesOfAPrefix) {
  std::vector<std::byte> stream = Encode({{5, std::string(52, 'h'), std::string(300, 'p')}});
  const int expected[] = {0x2c, 0x01, 0, 0, 52, 0, 5, 0};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(std::to_integer<int>(stream[i]), expected[i]);
}

}  // namespace
}  // namespace byteps::transport
