#include "src/local/meeting_talk.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "src/base/proof.h"

namespace byteps::local {
namespace {

// The pause between two attempts, because nobody tells when other processes have read their
// packets.
constexpr Duration kRoomEvery = milliseconds(5);

std::string FdLimitText() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return std::to_string(limit.rlim_cur) + " (ulimit -n)";
}

Status Crowded(const Status& sent) {
  return {StatusCode::kExhausted,
          sent.message() +
              ": more file descriptors of this user wait in packets that nobody has read than the "
              "limit of this process, " +
              FdLimitText() +
              ". Look for stopped processes of this user, raise the limit, or start fewer jobs at "
              "once"};
}

}  // namespace

Time MeetingNow() { return std::chrono::steady_clock::now(); }

bool GoesOn(const MeetingOptions& options) { return options.go_on == nullptr || options.go_on(); }

Status BrokenOff() {
  return {StatusCode::kShutdown, "joining the job was broken off; this process is not in it"};
}

Result<LifeDescriptor> NewLifeDescriptor() {
  UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (self) return LifeDescriptor{std::move(self), UniqueFd()};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status(StatusCode::kExhausted, std::string("no pipe: ") + std::strerror(errno));
  }
  return LifeDescriptor{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

MeetingHello HelloOf(const MeetingOptions& options) {
  MeetingHello hello;
  hello.rank = options.rank;
  hello.size = options.size;
  hello.memory_bytes = options.memory_bytes;
  hello.terms = options.terms.substr(0, kTermsBytesMax);
  RandomBytes(hello.nonce);
  return hello;
}

size_t SharedFds(const MeetingOptions& options) { return 2 * size_t{options.size} + 1; }

Result<Packet> AwaitPacket(const MeetingOptions& options, const UniqueFd& socket, Time deadline) {
  while (true) {
    bool asks = options.go_on != nullptr;
    Time until = asks ? std::min(deadline, MeetingNow() + kAskEvery) : deadline;
    Result<Packet> packet = ReceivePacket(socket, until);
    bool again = !packet.ok() && packet.status().code() == StatusCode::kDeadlineExceeded;
    if (!again || until == deadline) return packet;
    if (!GoesOn(options)) return BrokenOff();
  }
}

Status SendInTime(const MeetingOptions& options, const UniqueFd& socket, ConstByteSpan bytes,
                  const std::vector<int>& fds, Time deadline) {
  while (true) {
    Status sent = SendPacket(socket, bytes, fds);
    if (sent.code() != StatusCode::kUnavailable) return sent;
    if (!GoesOn(options)) return BrokenOff();
    Time until = std::min(deadline, MeetingNow() + kRoomEvery);
    // The other end says nothing meanwhile, so its socket is readable only when it has given up.
    if (PollReadable({socket.get()}, until)[0] || MeetingNow() >= deadline) return Crowded(sent);
  }
}

Status NoRoomFor(size_t fds) {
  return {StatusCode::kExhausted, "this process has no room for " + std::to_string(fds) +
                                      " more file descriptors, which the ranks of this machine "
                                      "share: its limit is " +
                                      FdLimitText() + "; raise it and start the job again"};
}

std::string PlaceText(const MeetingOptions& options) {
  return "job " + options.job + ", " + options.group;
}

std::string CommonText() {
  return "the same user, BYTEPS_JOB_ID, BYTEPS_JOB_SECRET, DMLC_PS_ROOT_URI and "
         "DMLC_PS_ROOT_PORT";
}

}  // namespace byteps::local
