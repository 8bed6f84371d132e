// The wire between processes of one host: each has a socket, whose number is in the numbers of its
// queue pairs. A message is one datagram, and so is its acknowledgement.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <string>

#include "tests/verbs_standin/fabric.h"

namespace byteps::standin {
namespace {

using std::chrono::microseconds;

// A number of a queue pair has 24 bits: those of its process, and those within the process.
constexpr uint32_t kPairBits = 11;
constexpr uint32_t kProcessMax = (1U << (24 - kPairBits)) - 1;
constexpr microseconds kFullAfter{100};
constexpr microseconds kRepeatAfter{2000};
constexpr int kAnswerAgainMs = 1;
constexpr size_t kDatagramBytesMax = size_t{300} * 1024;

enum class Kind : uint32_t { kMessage, kTaken, kRefused, kAgain };

struct Packet {
  Kind kind = Kind::kMessage;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t psn = 0;
  uint64_t number = 0;  // of the message
  ibv_gid gid{};        // of the receiver
  uint32_t status = 0;  // of a refusal
  uint32_t solicited = 0;
};

uint32_t ProcessOf(uint32_t pair) { return pair >> kPairBits; }

// Returns the length of the name of a process' socket.
socklen_t NameSocket(uint32_t process, sockaddr_un* name) {
  *name = {};
  name->sun_family = AF_UNIX;
  // The first byte of an abstract name is 0.
  int length = std::snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
                             "byteps-verbs-standin-%u", process);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

}  // namespace

void Fabric::OpenRemote() {
  if (remote_ >= 0) return;
  remote_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  auto process = static_cast<uint32_t>(getpid()) % kProcessMax + 1;
  sockaddr_un name{};
  for (uint32_t tried = 0; tried < kProcessMax; ++tried, process = process % kProcessMax + 1) {
    socklen_t length = NameSocket(process, &name);
    if (bind(remote_, reinterpret_cast<sockaddr*>(&name), length) == 0) break;
  }
  next_pair_ = process << kPairBits | 1;
  receiver_id_ = getpid();
  receiver_ = std::thread([this] { RunReceiver(); });
}

void Fabric::CloseRemote() {
  if (remote_ < 0 || receiver_id_ != getpid()) return;
  shutdown(remote_, SHUT_RDWR);
  receiver_.join();
  close(remote_);
}

bool Fabric::IsRemote(uint32_t pair) const {
  return ProcessOf(pair) != 0 && ProcessOf(pair) != ProcessOf(next_pair_);
}

// Returns 0, or a number of errno. Never blocks.
int Fabric::SendRemote(uint32_t to, const void* packet, const std::vector<uint8_t>& bytes) {
  sockaddr_un name{};
  iovec parts[2] = {{const_cast<void*>(packet), sizeof(Packet)},
                    {const_cast<uint8_t*>(bytes.data()), bytes.size()}};
  msghdr message{};
  message.msg_name = &name;
  message.msg_namelen = NameSocket(ProcessOf(to), &name);
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return sendmsg(remote_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

void Fabric::DeliverRemote(QueuePair& from, Work& message) {
  CheckUnchanged(message, "before it left");
  Packet packet;
  packet.from = from.qp_num;
  packet.to = from.attr.dest_qp_num;
  packet.psn = from.attr.sq_psn;
  packet.number = message.number;
  packet.gid = from.attr.ah_attr.grh.dgid;
  packet.solicited = message.solicited ? 1 : 0;
  int error = SendRemote(packet.to, &packet, BytesOf(message));
  if (error == EAGAIN || error == ENOBUFS) {  // the receiver has not read what came before
    from.message_is_due = true;
    return Schedule(Event::kMessage, from, kFullAfter);
  }
  if (error != 0) return RepeatRemote(from);
  message.delivered = true;
  from.message_is_due = true;
  Schedule(Event::kMessage, from);
}

void Fabric::RepeatRemote(QueuePair& from) {
  Repeat(from, &from.tries, 16 * from.attr.retry_cnt, IBV_WC_RETRY_EXC_ERR, kRepeatAfter);
}

// Reads on while answers wait for room in the sockets of others: two processes that wait for each
// other's room would wait for ever.
void Fabric::RunReceiver() {
  std::vector<uint8_t> datagram(kDatagramBytesMax);
  std::deque<Packet> answers;
  for (;;) {
    SendAnswers(&answers);
    pollfd readable{remote_, POLLIN, 0};
    if (poll(&readable, 1, answers.empty() ? -1 : kAnswerAgainMs) == 0) continue;
    ssize_t count = recv(remote_, datagram.data(), datagram.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < static_cast<ssize_t>(sizeof(Packet))) return;
    Packet packet;
    std::memcpy(&packet, datagram.data(), sizeof(packet));
    std::vector<uint8_t> bytes(datagram.begin() + sizeof(packet), datagram.begin() + count);
    std::lock_guard lock(mutex_);
    if (silent_) continue;
    if (packet.kind != Kind::kMessage) {
      OnRemoteAnswer(&packet);
    } else {
      OnRemoteMessage(&packet, bytes);
      answers.push_back(packet);
    }
  }
}

// Sends what there is room for. The answers to one process keep their order.
void Fabric::SendAnswers(void* waiting) {
  auto& answers = *static_cast<std::deque<Packet>*>(waiting);
  std::set<uint32_t> full;
  std::erase_if(answers, [&](const Packet& answer) {
    if (full.contains(ProcessOf(answer.to))) return false;
    if (SendRemote(answer.to, &answer, {}) != EAGAIN) return true;
    full.insert(ProcessOf(answer.to));
    return false;
  });
}

// Turns the packet into its answer.
void Fabric::OnRemoteMessage(void* in, const std::vector<uint8_t>& bytes) {
  auto& packet = *static_cast<Packet*>(in);
  std::swap(packet.from, packet.to);
  packet.kind = Kind::kAgain;
  auto found = pairs_.find(packet.from);
  if (found == pairs_.end()) return;
  QueuePair& pair = *found->second;
  auto has_gid = [&](const Gid& gid) { return std::memcmp(gid.data(), packet.gid.raw, 16) == 0; };
  bool ready = pair.state == IBV_QPS_RTR || pair.state == IBV_QPS_RTS;
  if (!ready || !std::ranges::any_of(gids_, has_gid) || pair.attr.dest_qp_num != packet.to ||
      pair.attr.rq_psn != packet.psn || !static_cast<Context*>(pair.context)->of->active) {
    return;
  }
  if (packet.number > pair.expected) return;
  if (packet.number == pair.expected) {
    if (pair.receives.empty()) {
      ++counts_.not_ready;
      return Complain("a message of another process found no posted receive");
    }
    ibv_wc_status status = Put(pair, bytes, packet.solicited != 0);
    packet.status = status;
    packet.kind = status == IBV_WC_SUCCESS ? Kind::kTaken : Kind::kRefused;
    if (status == IBV_WC_SUCCESS) ++pair.expected;
    return;
  }
  packet.kind = Kind::kTaken;
}

void Fabric::OnRemoteAnswer(const void* in) {
  const auto& packet = *static_cast<const Packet*>(in);
  auto found = pairs_.find(packet.to);
  if (found == pairs_.end()) return;
  QueuePair& from = *found->second;
  if (from.attr.dest_qp_num != packet.from || from.sends.empty()) return;
  if (packet.kind == Kind::kTaken) {
    from.tries = 0;
    if (from.sends.front().number == packet.number) Confirm(from);
  } else if (packet.kind == Kind::kRefused) {
    FailSends(from, static_cast<ibv_wc_status>(packet.status));
  } else {
    bool repeats = false;
    for (Work& work : from.sends) {
      if (work.number == packet.number) repeats = work.delivered;
      if (work.number >= packet.number) work.delivered = false;
    }
    if (repeats) RepeatRemote(from);
  }
}

void Fabric::ReadSettings() {
  gids_ = {GidOf(127, 0, 0, 1)};
  const char* gids = std::getenv("BYTEPS_VERBS_STANDIN_GIDS");
  if (gids == nullptr) return;
  gids_.clear();
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  for (int used = 0; std::sscanf(gids, "%u.%u.%u.%u%n", &a, &b, &c, &d, &used) == 4;) {
    gids_.push_back(GidOf(static_cast<uint8_t>(a), static_cast<uint8_t>(b), static_cast<uint8_t>(c),
                          static_cast<uint8_t>(d)));
    gids += used;
    if (*gids == ',') ++gids;
  }
}

// For tests with several processes: a line in a file that all of them share.
void Fabric::WriteCounts() const {
  const char* path = std::getenv("BYTEPS_VERBS_STANDIN_COUNTS");
  if (path == nullptr || receiver_id_ != getpid()) return;
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "messages=%llu bytes=%llu not_ready=%llu complaints=%zu open=%d\n",
               static_cast<unsigned long long>(counts_.messages),
               static_cast<unsigned long long>(counts_.bytes),
               static_cast<unsigned long long>(counts_.not_ready), complaints_.size(),
               counts_.nothing_is_open() ? 0 : 1);
  std::fclose(file);
}

}  // namespace byteps::standin
