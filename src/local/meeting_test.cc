#include "src/local/meeting.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "src/base/proof.h"
#include "src/local/local_for_test.h"
#include "src/local/meeting_words.h"
#include "src/local/packet_socket.h"

namespace byteps::local {
namespace {

MeetingOptions OptionsOf(uint32_t rank, uint32_t size) {
  MeetingOptions options;
  options.job = "job of process " + std::to_string(getpid());
  options.secret = "secret";
  options.rank = rank;
  options.size = size;
  options.memory_bytes = 4096;
  return options;
}

using Met = std::vector<std::optional<Result<Meeting>>>;

// All at once, each on a thread of its own.
Met MeetAll(const std::vector<MeetingOptions>& all, Duration limit) {
  Met met(all.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] { met[i].emplace(Meet(all[i], In(limit))); });
  }
  for (std::thread& thread : threads) thread.join();
  return met;
}

size_t OpenFds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST(MeetingTest, AllGetTheSameMemoryAndALineOfEachOther) {
  size_t before = OpenFds();
  {
    Met met = MeetAll({OptionsOf(0, 3), OptionsOf(1, 3), OptionsOf(2, 3)}, kLong);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      Result<Meeting>& mine = *met[rank];
      ASSERT_TRUE(mine.ok()) << mine.status().ToString();
      mine->memory.bytes()[rank] = std::byte{7};
      for (uint32_t other = 0; other < 3; ++other) {
        EXPECT_EQ(static_cast<bool>(mine->lines[other]), other != rank);
      }
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ((*met[rank])->memory.bytes()[(rank + 1) % 3], std::byte{7});
    }
  }
  EXPECT_EQ(OpenFds(), before);
}

TEST(MeetingTest, OneAloneMeetsItself) {
  Result<Meeting> met = Meet(OptionsOf(0, 1), In(kLong));
  ASSERT_TRUE(met.ok()) << met.status().ToString();
  EXPECT_EQ(met->memory.bytes().size(), 4096u);
}

TEST(MeetingTest, WhoIsMissingIsNamed) {
  size_t before = OpenFds();
  Met met = MeetAll({OptionsOf(0, 4), OptionsOf(2, 4)}, kSoon);
  for (const auto& one : met) {
    ASSERT_FALSE(one->ok());
    EXPECT_EQ(one->status().code(), StatusCode::kDeadlineExceeded) << one->status().ToString();
    EXPECT_NE(one->status().message().find("local ranks 1, 3 "), std::string::npos);
  }
  EXPECT_EQ(OpenFds(), before);
}

TEST(MeetingTest, WhoIsToldNotToGoOnComesBack) {
  MeetingOptions first = OptionsOf(0, 3);
  MeetingOptions second = OptionsOf(2, 3);
  first.go_on = second.go_on = [] { return false; };
  size_t before = OpenFds();
  Met met = MeetAll({first, second}, kLong);
  for (const auto& one : met) EXPECT_EQ(one->status().code(), StatusCode::kShutdown);
  EXPECT_EQ(OpenFds(), before);
}

// A guest may come in the moment between the end of one meeting and the end of its listener.
TEST(MeetingTest, TheSameProcessesMeetAgainAndAgain) {
  for (int time = 0; time < 20; ++time) {
    Met met = MeetAll({OptionsOf(0, 2), OptionsOf(1, 2)}, kLong);
    for (const auto& one : met) ASSERT_TRUE(one->ok()) << one->status().ToString();
  }
}

TEST(MeetingTest, DifferentTermsEndItOnAllAndNameBothSides) {
  MeetingOptions other = OptionsOf(1, 2);
  other.memory_bytes = 8192;
  Met met = MeetAll({OptionsOf(0, 2), other}, kLong);
  for (const auto& one : met) {
    EXPECT_EQ(one->status().code(), StatusCode::kMismatch);
    EXPECT_NE(one->status().message().find("4096"), std::string::npos) << one->status().message();
    EXPECT_NE(one->status().message().find("8192"), std::string::npos) << one->status().message();
  }
}

TEST(MeetingTest, TwoOfOneNumberAreRefused) {
  Met met = MeetAll({OptionsOf(1, 3), OptionsOf(1, 3)}, kLong);
  for (const auto& one : met) {
    EXPECT_EQ(one->status().code(), StatusCode::kMismatch) << one->status().ToString();
  }
}

TEST(MeetingTest, ANameSaysNothingWithoutTheSecret) {
  MeetingOptions mine = OptionsOf(0, 2);
  MeetingOptions theirs = mine;
  theirs.secret = "another";
  MeetingOptions later = mine;
  later.group = "2";
  EXPECT_NE(MeetingName(mine), MeetingName(theirs));
  EXPECT_NE(MeetingName(mine), MeetingName(later));
  EXPECT_EQ(MeetingName(mine).find(mine.job), std::string::npos);
}

// What a stranger does at the door changes nothing for those who belong.
void MeetDespite(const std::function<UniqueFd(const std::string& name)>& stranger) {
  MeetingOptions first = OptionsOf(0, 2);
  std::optional<Result<Meeting>> met;
  std::thread host([&] { met.emplace(Meet(first, In(kLong))); });
  Result<UniqueFd> socket = ConnectPackets(MeetingName(first));
  while (!socket.ok()) {
    std::this_thread::yield();
    socket = ConnectPackets(MeetingName(first));
  }
  UniqueFd open = stranger(MeetingName(first));
  Result<Meeting> second = Meet(OptionsOf(1, 2), In(kLong));
  host.join();
  EXPECT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE(met->ok()) << met->status().ToString();
}

TEST(MeetingTest, AStrangerWhoSaysNothingIsNotWaitedFor) {
  MeetDespite([](const std::string& name) { return std::move(ConnectPackets(name).value()); });
}

TEST(MeetingTest, AStrangerWhoSaysNonsenseIsDropped) {
  MeetDespite([](const std::string& name) {
    UniqueFd socket = std::move(ConnectPackets(name).value());
    std::vector<std::byte> nonsense(100, std::byte{0xff});
    EXPECT_TRUE(SendPacket(socket, nonsense).ok());
    EXPECT_EQ(ReceivePacket(socket, In(kLong)).status().code(), StatusCode::kPeerLost);
    return socket;
  });
}

TEST(MeetingTest, AStrangerWithoutTheSecretIsDropped) {
  MeetDespite([](const std::string& name) {
    UniqueFd socket = std::move(ConnectPackets(name).value());
    MeetingHello hello;
    hello.rank = 1;
    hello.size = 2;
    hello.memory_bytes = 4096;
    EXPECT_TRUE(SendPacket(socket, EncodeMeetingHello(hello)).ok());
    Result<Packet> challenge = ReceivePacket(socket, In(kLong));
    EXPECT_TRUE(challenge.ok());
    ProofBytes guess{};
    EXPECT_TRUE(
        SendPacket(socket, EncodeMeetingWord(MeetingWord::kProof, guess), {socket.get()}).ok());
    EXPECT_EQ(ReceivePacket(socket, In(kLong)).status().code(), StatusCode::kPeerLost);
    return socket;
  });
}

TEST(MeetingTest, WhoListensAndDoesNotKnowTheSecretIsNotBelieved) {
  MeetingOptions options = OptionsOf(1, 2);
  UniqueFd listener = std::move(ListenPackets(MeetingName(options)).value());
  std::optional<Result<Meeting>> met;
  std::thread guest([&] { met.emplace(Meet(options, In(kLong))); });
  PollReadable({listener.get()}, In(kLong));
  UniqueFd socket = std::move(AcceptPackets(listener).value());
  EXPECT_TRUE(ReceivePacket(socket, In(kLong)).ok());
  MeetingNonce nonce{};
  EXPECT_TRUE(SendPacket(socket, EncodeMeetingWord(MeetingWord::kChallenge, nonce)).ok());
  EXPECT_TRUE(ReceivePacket(socket, In(kLong)).ok());
  ProofBytes guess{};
  EXPECT_TRUE(SendPacket(socket, EncodeMeetingWord(MeetingWord::kWelcome, guess)).ok());
  guest.join();
  EXPECT_EQ(met->status().code(), StatusCode::kRefused);
}

TEST(MeetingTest, WordsOfAnyLengthAreReadOrRefused) {
  MeetingHello hello;
  hello.terms = "blocks of 4096";
  std::vector<std::byte> bytes = EncodeMeetingHello(hello);
  EXPECT_EQ(DecodeMeetingHello(bytes)->terms, hello.terms);
  for (size_t length = 0; length < bytes.size() - hello.terms.size(); ++length) {
    EXPECT_FALSE(DecodeMeetingHello(ConstByteSpan(bytes).first(length)).has_value()) << length;
  }
  std::vector<std::byte> refusal = EncodeMeetingRefusal({StatusCode::kMismatch, "differs"});
  EXPECT_EQ(*DecodeMeetingRefusal(refusal), Status(StatusCode::kMismatch, "differs"));
  refusal[1] = std::byte{200};
  EXPECT_EQ(DecodeMeetingRefusal(refusal)->code(), StatusCode::kProtocol);
  EXPECT_FALSE(DecodeMeetingRefusal(ConstByteSpan(refusal).first(4)).has_value());
}

}  // namespace
}  // namespace byteps::local
