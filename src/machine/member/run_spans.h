// The spans of the pieces of a round, as the carrier's lanes need them: only their sizes count,
// because the stages have the bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/types.h"
#include "src/machine/member/member_words.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::machine {

// `facts` and `memory`, which stands for the memory of each piece, outlive this object.
class RunSpans final : public protocol::SpanSource {
 public:
  RunSpans(const MemberFacts& facts, uint32_t first_piece, ByteSpan memory)
      : facts_(facts), memory_(memory) {
    for (const MemberFacts::Run& run : facts.pieces) {
      begins_.push_back(first_piece);
      first_piece += run.count;
    }
    end_ = first_piece;
  }
  uint32_t end() const { return end_; }

  protocol::Spans SpansOf(uint32_t number) const override {
    auto next = std::ranges::upper_bound(begins_, number);
    const auto& run = facts_.pieces[static_cast<size_t>(next - begins_.begin()) - 1];
    protocol::Spans spans;
    spans.piece_bytes = run.bytes;
    spans.push_offset = run.push_offset;
    spans.push = memory_.first(run.push_bytes);
    spans.want_offset = run.want_offset;
    spans.want = memory_.first(run.want_bytes);
    return spans;
  }

 private:
  const MemberFacts& facts_;
  const ByteSpan memory_;
  std::vector<uint32_t> begins_;
  uint32_t end_ = 0;
};

}  // namespace byteps::machine
