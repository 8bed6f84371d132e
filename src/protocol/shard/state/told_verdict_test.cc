#include "src/protocol/shard/state/told_verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class ToldVerdictTest : public testing::Test {
 protected:
  ToldVerdict Told(const std::string& text) {
    payload = pool.Take(text.size());
    auto bytes = std::as_bytes(std::span(text));
    std::copy(bytes.begin(), bytes.end(), payload.data());
    return {header, payload, text.size()};
  }
  static std::string TextOf(ConstByteSpan bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  BufferPool pool;
  BufferRef payload;
  wire::DataHeader header = PushOf({7, 0, 1}, 4);
};

TEST_F(ToldVerdictTest, ReceiptAndContentFillThePayload) {
  EXPECT_TRUE(Told("abcd").IsWhole());
  EXPECT_FALSE(Told("abc").IsWhole());
  EXPECT_FALSE(Told("abcde").IsWhole());
  header.receipt = 2;
  EXPECT_TRUE(Told("rrabcd").IsWhole());
  EXPECT_FALSE(Told("abcd").IsWhole());
  EXPECT_FALSE(Told("r").IsWhole()) << "the receipt is cut";
  header.receipt = UINT32_MAX;
  EXPECT_FALSE(Told("abcd").IsWhole());
}

TEST_F(ToldVerdictTest, OfWhatIsEncodedTheEncodedBytesCount) {
  header.codec = 9;
  header.encoded_bytes = 2;
  EXPECT_TRUE(Told("ab").IsWhole());
  EXPECT_FALSE(Told("abcd").IsWhole());
}

TEST_F(ToldVerdictTest, AnEmptyOneHasAReceiptAndNoMore) {
  header.want_bytes = 0;
  header.receipt = 1;
  EXPECT_TRUE(Told("r").IsEmpty());
  EXPECT_TRUE(Told("r").IsWhole());
  EXPECT_FALSE(Told("rabcd").IsEmpty());
  header.want_bytes = 4;
  EXPECT_FALSE(Told("r").IsEmpty()) << "its sender wanted bytes";
  header.want_bytes = header.piece_bytes = 0;
  EXPECT_FALSE(Told("r").IsEmpty()) << "a piece without bytes has all of them";
}

TEST_F(ToldVerdictTest, TheReceiptIsInFrontOfTheContent) {
  header.receipt = 1;
  ToldVerdict told = Told("\x05wxyz");
  EXPECT_EQ(told.receipt()->List(), (std::vector<Slot>{0, 2}));
  EXPECT_EQ(TextOf(told.content()), "wxyz");
  KernelArithmetic arithmetic;
  BufferRef copy = told.CopyOfContent(pool, arithmetic);
  EXPECT_EQ(TextOf({copy.data(), 4}), "wxyz");
  EXPECT_NE(copy.data(), payload.data());
}

TEST_F(ToldVerdictTest, WithoutAReceiptItIsEverybodysAndNothingIsCopied) {
  ToldVerdict told = Told("wxyz");
  EXPECT_EQ(told.receipt(), nullptr);
  KernelArithmetic arithmetic;
  EXPECT_EQ(told.CopyOfContent(pool, arithmetic).data(), payload.data());
}

TEST_F(ToldVerdictTest, AnErrorNeedsNoTextThatCanBeRead) {
  header.status = StatusCode::kPeerLost;
  wire::ErrorRow row;
  row.Add(1, {StatusCode::kPeerLost, "gone"});
  std::vector<std::byte> encoded = row.Encode(1);
  std::string text(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  EXPECT_EQ(Told(text).errors().Of(1)->message(), "gone");
  ToldVerdict unreadable = Told("?");
  EXPECT_TRUE(unreadable.IsWhole());
  EXPECT_FALSE(unreadable.IsEmpty());
  EXPECT_EQ(unreadable.errors().Of(1)->code(), StatusCode::kPeerLost);
  EXPECT_EQ(unreadable.errors().Of(1)->message(), "no reason was given");
}

}  // namespace
}  // namespace byteps::protocol
