#include "src/local/meeting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

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

// Lets all meet at once, each on a thread of its own.
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

TEST(MeetingTest, AllGetTheSameMemoryAndALifeDescriptorOfEachOther) {
  size_t before = OpenFds();
  {
    Met met = MeetAll({OptionsOf(0, 3), OptionsOf(1, 3), OptionsOf(2, 3)}, kLong);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      Result<Meeting>& mine = *met[rank];
      ASSERT_TRUE(mine.ok()) << mine.status().ToString();
      mine->memory.bytes()[rank] = std::byte{7};
      for (uint32_t other = 0; other < 3; ++other) {
        EXPECT_EQ(static_cast<bool>(mine->life_fds[other]), other != rank);
        if (other != rank) {
          const uint32_t process = ProcessOf(mine->life_fds[other]);
          EXPECT_EQ(process, static_cast<uint32_t>(getpid()));
        }
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

// Meets on a thread of its own. The constructor returns when it listens.
class FirstOne {
 public:
  explicit FirstOne(const MeetingOptions& options)
      : thread_([this, options] { met_.emplace(Meet(options, In(kLong))); }) {
    while (!ConnectPackets(MeetingName(options)).ok()) std::this_thread::yield();
  }
  FirstOne(const FirstOne&) = delete;
  FirstOne& operator=(const FirstOne&) = delete;
  ~FirstOne() {
    if (thread_.joinable()) thread_.join();
  }
  const Result<Meeting>& met() {
    if (thread_.joinable()) thread_.join();
    return *met_;
  }

 private:
  std::optional<Result<Meeting>> met_;
  std::thread thread_;
};

TEST(MeetingTest, WhoHasOtherTermsIsRefusedAndTheOthersMeet) {
  std::string told;
  MeetingOptions first = OptionsOf(0, 2);
  first.on_refused = [&](const std::string& whom) { told = whom; };
  MeetingOptions other = OptionsOf(1, 2);
  other.memory_bytes = 8192;
  FirstOne host(first);
  const Status refused = Meet(other, In(kLong)).status();
  EXPECT_EQ(refused.code(), StatusCode::kMismatch);
  for (const char* part : {"4096", "8192", "DMLC_PS_ROOT_PORT"}) {
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
  }
  EXPECT_TRUE(Meet(OptionsOf(1, 2), In(kLong)).ok());
  EXPECT_TRUE(host.met().ok()) << host.met().status().ToString();
  EXPECT_NE(told.find(refused.message()), std::string::npos) << told;
}

TEST(MeetingTest, WhoComesToAPlaceThatIsTakenIsRefusedAndTheOthersMeet) {
  FirstOne host(OptionsOf(1, 3));
  const Status refused = Meet(OptionsOf(1, 3), In(kLong)).status();
  EXPECT_EQ(refused.code(), StatusCode::kMismatch) << refused.ToString();
  const std::string who = "process " + std::to_string(getpid());
  for (const std::string& part : {std::string("local rank 1 of 3"), who}) {
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
  }
  FirstOne second(OptionsOf(2, 3));
  EXPECT_TRUE(Meet(OptionsOf(0, 3), In(kLong)).ok());
  EXPECT_TRUE(second.met().ok()) << second.met().status().ToString();
  EXPECT_TRUE(host.met().ok()) << host.met().status().ToString();
}

TEST(MeetingTest, WhoWaitsInVainHearsWhomItHasRefused) {
  MeetingOptions other = OptionsOf(1, 2);
  other.terms = "another version";
  Met met = MeetAll({OptionsOf(0, 2), OptionsOf(0, 2), other}, kSoon);
  size_t refused = 0;
  for (const auto& one : met) {
    refused += one->status().code() == StatusCode::kMismatch ? 1 : 0;
    EXPECT_NE(one->status().message().find("BYTEPS_JOB_ID"), std::string::npos);
  }
  EXPECT_GE(refused, 1u);
}

// Each of two jobs has ranks 0 and 1, and they come crosswise.
TEST(MeetingTest, JobsThatDifferInTheirGroupAloneDoNotMeet) {
  std::vector<MeetingOptions> all;
  for (uint32_t i = 0; i < 4; ++i) {
    all.push_back(OptionsOf(i % 2, 2));
    all.back().group = i == 0 || i == 3 ? "one" : "two";
  }
  std::swap(all[1], all[3]);  // one 0, one 1, two 0, two 1
  Met met = MeetAll({all[0], all[3], all[1], all[2]}, kLong);
  for (const auto& one : met) ASSERT_TRUE(one->ok()) << one->status().ToString();
  (*met[0])->memory.bytes()[0] = std::byte{1};
  (*met[3])->memory.bytes()[0] = std::byte{2};
  EXPECT_EQ((*met[2])->memory.bytes()[0], std::byte{1});
  EXPECT_EQ((*met[1])->memory.bytes()[0], std::byte{2});
}

TEST(MeetingTest, ANameSaysNothingWithoutTheSecret) {
  MeetingOptions mine = OptionsOf(0, 2);
  MeetingOptions theirs = mine;
  theirs.secret = "another";
  MeetingOptions later = mine;
  later.group = "2";
  MeetingOptions of_rank = mine;
  of_rank.rank = 1;
  EXPECT_NE(MeetingName(mine), MeetingName(theirs));
  EXPECT_NE(MeetingName(mine), MeetingName(later));
  EXPECT_EQ(MeetingName(mine), MeetingName(of_rank));
  EXPECT_EQ(MeetingName(mine).find(mine.job), std::string::npos);
}

// Checks that two ranks meet, whatever a stranger does at the socket meanwhile.
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

void ExpectTaken(const Status& status, const std::string& what) {
  EXPECT_NE(status.message().find("holds the place where the processes of this job meet"),
            std::string::npos)
      << status.ToString();
  for (const std::string& part : {what, std::string("set BYTEPS_JOB_SECRET")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
  }
}

TEST(MeetingTest, APlaceThatSomebodyHoldsInSilenceIsNamed) {
  const MeetingOptions options = OptionsOf(0, 2);
  UniqueFd listener = std::move(ListenPackets(MeetingName(options)).value());
  ExpectTaken(Meet(options, In(kSoon)).status(),
              "process " + std::to_string(getpid()) + " of user " + std::to_string(geteuid()));
}

TEST(MeetingTest, APlaceThatSomebodyHoldsAndDoesNotListenIsNamed) {
  const MeetingOptions options = OptionsOf(0, 2);
  UniqueFd holder(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un where = {};
  where.sun_family = AF_UNIX;
  const std::string name = MeetingName(options);
  std::memcpy(where.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(bind(holder.get(), reinterpret_cast<sockaddr*>(&where), bytes), 0);
  ExpectTaken(Meet(options, In(kSoon)).status(), "does not let anybody in");
}

TEST(MeetingTest, APlaceThatAnotherUserHoldsIsNamedAtOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  const MeetingOptions options = OptionsOf(0, 2);
  const std::string name = MeetingName(options);
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd ready(ends[0]), says(ends[1]);
  const pid_t squatter = fork();
  if (squatter == 0) {
    alarm(120);
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(1);
    Result<UniqueFd> listener = ListenPackets(name);
    if (write(says.get(), "x", 1) == 1) pause();
    _exit(0);
  }
  EXPECT_TRUE(PollReadable({ready.get()}, In(kLong))[0]);
  const Status status = Meet(options, In(kLong)).status();
  kill(squatter, SIGKILL);
  waitpid(squatter, nullptr, 0);
  EXPECT_EQ(status.code(), StatusCode::kRefused) << status.ToString();
  ExpectTaken(status, "process " + std::to_string(squatter) + " of user 65534");
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
