// A router between network namespaces whose paths are long and lose packets: does the work of `tc
// netem` on a kernel without it.
//
//   bench_long_path MBIT RTT_MS LOSS_PERMILLE QUEUE_MS NAMESPACE...
//
// Makes a TUN device eth0 in each namespace, whose address is 10.78.0.N/24 (N from 1, set by the
// caller), and passes packets between them. Each host has a link of MBIT in each direction, with a
// queue of QUEUE_MS; packets that do not fit into the queue are dropped. Each packet takes half of
// RTT_MS in addition, and is lost by chance. Lines on stdin change the path for later packets; each
// line is answered with a line of JSON: "rtt MS", "loss PERMILLE", "counts". Ends with its input.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Span = std::chrono::nanoseconds;

constexpr size_t kPacketBytesMax = 2048;
constexpr int kUsageError = 2;
// Hands on many packets at a time: a wake-up for each would cost more than the packet.
constexpr Span kTurn = std::chrono::microseconds(100);
// Ethernet's own bytes, which a link carries beside those of IP.
constexpr size_t kFrameBytes = 18;

[[noreturn]] void Die(const std::string& what) {
  std::perror(("bench_long_path: " + what).c_str());
  std::exit(1);
}

struct Packet {
  Time due;
  size_t bytes = 0;
  size_t to = 0;
  std::unique_ptr<std::array<char, kPacketBytesMax>> data;
};

struct Host {
  int tun = -1;
  Time sent;      // when its link has carried what it was given
  Time received;  // the same in the other direction
  std::deque<Packet> under_way;
  std::deque<Packet> arriving;
};

class Path {
 public:
  Path(double mbit, double rtt_ms, double loss_permille, double queue_ms)
      : byte_time_(8e3 / mbit), queue_(Milliseconds(queue_ms)) {
    SetRtt(rtt_ms);
    SetLoss(loss_permille);
  }

  void Add(const std::string& name) { hosts_.emplace_back().tun = OpenTun(name); }

  void SetRtt(double milliseconds) { delay_ = Milliseconds(milliseconds / 2); }
  void SetLoss(double permille) { loss_ = permille / 1000; }

  // Moves the packets that are due. Returns when the next packet is due.
  Time Turn() {
    const Time now = Clock::now();
    for (Host& host : hosts_) Take(host, now);
    while (Host* first = FirstUnderWay()) {
      if (first->under_way.front().due > now) break;
      Arrive(*first);
    }
    for (Host& host : hosts_) Give(host, now);
    Time next = now + std::chrono::seconds(1);
    for (Host& host : hosts_) {
      if (!host.under_way.empty()) next = std::min(next, host.under_way.front().due);
      if (!host.arriving.empty()) next = std::min(next, host.arriving.front().due);
    }
    return next;
  }

  std::vector<pollfd> Inputs() const {
    std::vector<pollfd> inputs;
    for (const Host& host : hosts_) inputs.push_back({host.tun, POLLIN, 0});
    return inputs;
  }

  void Answer() const {
    std::printf("{\"passed\": %llu, \"lost\": %llu, \"dropped\": %llu}\n", passed_, lost_,
                dropped_);
    std::fflush(stdout);
  }

 private:
  static Span Milliseconds(double count) { return Span(static_cast<int64_t>(count * 1e6)); }
  Span TimeOf(size_t bytes) const {
    return Span(static_cast<int64_t>(static_cast<double>(bytes + kFrameBytes) * byte_time_));
  }

  // The device stays in the namespace in which it was made.
  static int OpenTun(const std::string& name) {
    const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    const int other = open(("/var/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (own < 0 || other < 0 || setns(other, CLONE_NEWNET) != 0) Die(name);
    const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request) != 0) Die("/dev/net/tun");
    if (setns(own, CLONE_NEWNET) != 0) Die("back from " + name);
    close(own);
    close(other);
    return tun;
  }

  Packet NewPacket() {
    Packet packet;
    if (spare_.empty()) {
      packet.data = std::make_unique<std::array<char, kPacketBytesMax>>();
    } else {
      packet.data = std::move(spare_.back());
      spare_.pop_back();
    }
    return packet;
  }

  void Drop(Packet& packet, unsigned long long& count) {
    ++count;
    spare_.push_back(std::move(packet.data));
  }

  void Take(Host& from, Time now) {
    for (;;) {
      Packet packet = NewPacket();
      const ssize_t count = read(from.tun, packet.data->data(), kPacketBytesMax);
      if (count <= 0) {
        spare_.push_back(std::move(packet.data));
        return;
      }
      packet.bytes = static_cast<size_t>(count);
      // Reads the last byte of the packet's target address, if it is IPv4.
      const bool known = count >= 20 && (*packet.data)[0] >> 4 == 4;
      packet.to = known ? static_cast<unsigned char>((*packet.data)[19]) - size_t{1} : SIZE_MAX;
      if (packet.to >= hosts_.size()) {
        spare_.push_back(std::move(packet.data));
        continue;
      }
      Send(from, std::move(packet), now);
    }
  }

  void Send(Host& from, Packet packet, Time now) {
    from.sent = std::max(from.sent, now);
    if (from.sent - now > queue_) return Drop(packet, dropped_);
    from.sent += TimeOf(packet.bytes);
    if (chance_(random_) < loss_) return Drop(packet, lost_);
    packet.due = from.sent + delay_;
    // A path that becomes shorter does not reorder packets.
    if (!from.under_way.empty()) packet.due = std::max(packet.due, from.under_way.back().due);
    from.under_way.push_back(std::move(packet));
  }

  Host* FirstUnderWay() {
    Host* first = nullptr;
    for (Host& host : hosts_) {
      if (host.under_way.empty()) continue;
      if (first == nullptr || host.under_way.front().due < first->under_way.front().due) {
        first = &host;
      }
    }
    return first;
  }

  void Arrive(Host& from) {
    Packet packet = std::move(from.under_way.front());
    from.under_way.pop_front();
    Host& to = hosts_[packet.to];
    to.received = std::max(to.received, packet.due);
    if (to.received - packet.due > queue_) return Drop(packet, dropped_);
    to.received += TimeOf(packet.bytes);
    packet.due = to.received;
    to.arriving.push_back(std::move(packet));
  }

  void Give(Host& to, Time now) {
    while (!to.arriving.empty() && to.arriving.front().due <= now) {
      Packet& packet = to.arriving.front();
      [[maybe_unused]] ssize_t written = write(to.tun, packet.data->data(), packet.bytes);
      ++passed_;
      spare_.push_back(std::move(packet.data));
      to.arriving.pop_front();
    }
  }

  const double byte_time_;  // nanoseconds
  const Span queue_;
  Span delay_{};
  double loss_ = 0;
  std::deque<Host> hosts_;
  std::vector<std::unique_ptr<std::array<char, kPacketBytesMax>>> spare_;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> chance_{0, 1};
  unsigned long long passed_ = 0;
  unsigned long long lost_ = 0;
  unsigned long long dropped_ = 0;
};

void Obey(Path& path, const std::string& line) {
  std::istringstream words(line);
  std::string what;
  double value = 0;
  words >> what >> value;
  if (what == "rtt") path.SetRtt(value);
  if (what == "loss") path.SetLoss(value);
  path.Answer();
}

// Returns false when the input has ended.
bool Listen(Path& path, std::string& rest) {
  char buffer[256];
  const ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
  if (count <= 0) return false;
  rest.append(buffer, static_cast<size_t>(count));
  for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
    Obey(path, rest.substr(0, end));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: bench_long_path MBIT RTT_MS LOSS_PERMILLE QUEUE_MS NAMESPACE...\n");
    return kUsageError;
  }
  prctl(PR_SET_TIMERSLACK, 1000UL);
  Path path(std::atof(argv[1]), std::atof(argv[2]), std::atof(argv[3]), std::atof(argv[4]));
  for (int i = 5; i < argc; ++i) path.Add(argv[i]);
  path.Answer();
  std::vector<pollfd> inputs = path.Inputs();
  inputs.push_back({STDIN_FILENO, POLLIN, 0});
  for (std::string rest;;) {
    const Time next = path.Turn();
    const Span left = std::max<Span>(next - Clock::now(), kTurn);
    if (left <= kTurn) {
      const timespec pause{0, kTurn.count()};
      ppoll(nullptr, 0, &pause, nullptr);
      inputs.back().revents = 0;
      if (poll(&inputs.back(), 1, 0) < 0) Die("poll");
    } else {
      const timespec pause{left.count() / 1000000000, left.count() % 1000000000};
      if (ppoll(inputs.data(), inputs.size(), &pause, nullptr) < 0) Die("poll");
    }
    if (inputs.back().revents != 0 && !Listen(path, rest)) return 0;
  }
}
