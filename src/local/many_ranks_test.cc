// Meetings of processes for which the limits of ordinary users hold.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/local/forked_for_test.h"
#include "src/local/local_for_test.h"
#include "src/local/meeting.h"
#include "src/local/packet_socket.h"

namespace byteps::local {
namespace {

// The limit of waits in vain whose error tells what the process has met: the process must have
// looked once by then, also on a machine where it stands still for a moment.
constexpr Duration kAfterOneLook = seconds(2);

constexpr rlim_t kUsualLimit = 1024;  // of a login

MeetingOptions OptionsOfMany(const std::string& job, uint32_t rank, uint32_t size) {
  MeetingOptions options;
  options.job = job + " of process " + std::to_string(getpid());
  options.secret = "secret";
  options.group = "many ranks";
  options.rank = rank;
  options.size = size;
  options.memory_bytes = 4096;
  return options;
}

// Returns "ok" if the meeting has the descriptors of all others, otherwise the reason.
std::string MeetAndLook(const MeetingOptions& options, Time deadline) {
  Result<Meeting> met = Meet(options, deadline);
  if (!met.ok()) return met.status().ToString();
  for (uint32_t rank = 0; rank < options.size; ++rank) {
    const bool has_both = met->life_fds[rank] && met->heaps[rank];
    if (has_both != (rank != options.rank))
      return "of rank " + std::to_string(rank) + " something is missing";
  }
  return "ok";
}

// Starts `jobs` jobs at once and returns the lines of their ranks.
std::vector<std::string> MeetAll(uint32_t jobs, uint32_t size, rlim_t fds_max) {
  Forked ranks(size_t{jobs} * size);
  const Time deadline = In(kLong);
  for (uint32_t rank = 0; rank < size; ++rank) {
    for (uint32_t job = 0; job < jobs; ++job) {
      MeetingOptions options = OptionsOfMany("job " + std::to_string(job), rank, size);
      ranks.Start(fds_max, [&] { return MeetAndLook(options, deadline); });
    }
  }
  return ranks.Said();
}

TEST(ManyRanksTest, SixtyFourRanksOfAUserMeetUnderTheUsualLimit) {
  for (const std::string& said : MeetAll(1, 64, kUsualLimit)) EXPECT_EQ(said, "ok");
}

// Linux counts the descriptors of all jobs of a user together.
TEST(ManyRanksTest, SeveralJobsOfAUserMeetAtOnce) {
  for (const std::string& said : MeetAll(3, 64, kUsualLimit)) EXPECT_EQ(said, "ok");
}

// The host has three descriptors for each other rank (a socket, a life descriptor, a heap), and its
// own: three of standard input and output, the listener, its life descriptor, two of its heap, and
// the memory.
TEST(ManyRanksTest, SixteenRanksMeetUnderALimitAsLowAsAProcessNeeds) {
  constexpr rlim_t kLeast = 3 * 15 + 8;
  for (const std::string& said : MeetAll(1, 16, kLeast)) EXPECT_EQ(said, "ok");
}

TEST(ManyRanksTest, ARankWithoutRoomForTheDescriptorsIsNamedOnAllAndTheLimitToo) {
  const MeetingOptions host = OptionsOfMany("tight", 0, 3);
  Forked ranks(3);
  ranks.Start(kUsualLimit, [&] { return MeetAndLook(host, In(kLong)); });
  while (!ConnectPackets(MeetingName(host)).ok()) std::this_thread::yield();
  // Rank 1 has seven open descriptors when it has connected. Its limit leaves two, and seven
  // arrive.
  MeetingOptions tight = host;
  tight.rank = 1;
  ranks.Start(9, [&] { return MeetAndLook(tight, In(kLong)); });
  MeetingOptions last = host;
  last.rank = 2;
  ranks.Start(kUsualLimit, [&] { return MeetAndLook(last, In(kLong)); });
  for (const std::string& said : ranks.Said()) {
    EXPECT_EQ(said.rfind("limit reached: ", 0), 0u) << said;
    EXPECT_NE(said.find("its limit is 9 (ulimit -n)"), std::string::npos) << said;
  }
  EXPECT_NE(ranks.Said()[2].find("local rank 1 of this machine (process "), std::string::npos);
}

// Keeps more descriptors in packets than this process may have, as other jobs could do.
class Crowd {
 public:
  Crowd() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0) return;
    from_ = UniqueFd(ends[0]);
    to_ = UniqueFd(ends[1]);
    const UniqueFd one(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::vector<int> many(kPacketFdsMax, one.get());
    for (rlim_t sent = 0; sent <= kLimit; sent += kPacketFdsMax) {
      EXPECT_TRUE(SendPacket(from_, std::array<std::byte, 1>{}, many).ok());
    }
  }
  // Drops the packets with their socket.
  void Leave() { to_.Close(); }
  static constexpr rlim_t kLimit = kPacketFdsMax - 1;

 private:
  UniqueFd from_, to_;
};

// Lets two ranks meet on two threads, and returns the line of rank 1. Rank 1 calls `asked` again
// and again while it waits.
std::string MeetOfTwo(Time deadline, const std::function<void()>& asked) {
  std::array<std::string, 2> said;
  std::array<std::thread, 2> threads;
  for (uint32_t rank : {0, 1}) {
    threads[rank] = std::thread([&, rank] {
      MeetingOptions options = OptionsOfMany("crowded", rank, 2);
      if (rank == 1) options.go_on = [&] { return asked(), true; };
      said[rank] = MeetAndLook(options, deadline);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said[0] == said[1] ? said[1] : said[0] + "; " + said[1];
}

TEST(ManyRanksTest, WhoFindsTooManyDescriptorsOnTheirWayWaitsForRoom) {
  Forked process(1);
  process.Start(Crowd::kLimit, [] {
    Crowd crowd;
    int asks = 0;
    std::string said = MeetOfTwo(In(kLong), [&] {
      if (++asks == 5) crowd.Leave();
    });
    return asks < 5 ? "nobody has waited: " + said : said;
  });
  EXPECT_EQ(process.Said()[0], "ok");
}

TEST(ManyRanksTest, WhoWaitsForRoomInVainSaysWhy) {
  Forked process(1);
  process.Start(Crowd::kLimit, [] {
    Crowd crowd;
    return MeetOfTwo(In(kAfterOneLook), [] {});
  });
  const std::string said = process.Said()[0];
  EXPECT_NE(said.find("limit reached: "), std::string::npos) << said;
  EXPECT_NE(said.find(std::to_string(Crowd::kLimit) + " (ulimit -n)"), std::string::npos) << said;
}

// The host calls go_on each time it has looked for guests, so the test counts these looks.
TEST(ManyRanksTest, AHostWithoutDescriptorsForWhoKnocksDoesNotSpin) {
  Forked process(1);
  // Five descriptors suffice for standard input and output, the listener and the guest's end, but
  // not for the host's end of the connection.
  process.Start(5, [] {
    MeetingOptions options = OptionsOfMany("full", 0, 2);
    UniqueFd socket;
    std::atomic<int> looks{0};
    const Time until = In(seconds(1));
    options.go_on = [&] {
      if (!socket) socket = std::move(ConnectPackets(MeetingName(options)).value());
      ++looks;
      return std::chrono::steady_clock::now() < until;
    };
    Result<Meeting> met = Meet(options, In(kLong));
    return met.status().ToString().substr(0, 9) + (looks < 100 ? "" : " spins");
  });
  EXPECT_EQ(process.Said()[0], Status(StatusCode::kShutdown, "").ToString().substr(0, 9));
}

TEST(ManyRanksTest, AHostThatCouldNotLetSomebodyInSaysWhichLimitIsTooLow) {
  Forked process(1);
  process.Start(5, [] {
    MeetingOptions options = OptionsOfMany("full", 0, 2);
    UniqueFd socket;
    options.go_on = [&] {
      if (!socket) socket = std::move(ConnectPackets(MeetingName(options)).value());
      return true;
    };
    return Meet(options, In(kAfterOneLook)).status().ToString();
  });
  const std::string said = process.Said()[0];
  EXPECT_EQ(said.rfind("limit reached: local rank 1 ", 0), 0u) << said;
  EXPECT_NE(said.find("ulimit -n"), std::string::npos) << said;
}

}  // namespace
}  // namespace byteps::local
