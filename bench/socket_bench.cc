// Measures plain blocking sockets: the measure for everything else on the same links.
//
//   bench_socket serve PORT         answers clients, one thread each, as long as its parent lives
//   bench_socket HOST:PORT...       a client of these servers; lines on stdin:
//     stream BYTES                  to the first server, one stream, until it has them all
//     exchange BYTES COUNT          BYTES to all servers together, in equal parts, one connection
//                                   each, and as many back at the same time; COUNT times
//     pingpong BYTES COUNT          there and back, COUNT times
//
// Every command ends with a line of JSON; begin and end are readings of the machine's steady clock.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kChunkBytes = size_t{256} * 1024;
// This many bytes always fit into a connection on their way, so both ends may send them before they
// receive.
constexpr size_t kSocketBytes = size_t{16} * 1024;
constexpr int kUsageError = 2;

enum class Mode : uint64_t { kStream = 1, kExchange = 2, kPingPong = 3 };

// Both ends run on one machine, so the order of bytes is the machine's.
struct Order {
  Mode mode = Mode::kStream;
  uint64_t bytes = 0;
  uint64_t count = 0;
};

[[noreturn]] void Die(const std::string& what) {
  std::perror(("bench_socket: " + what).c_str());
  std::exit(1);
}

bool SendAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = send(fd, at, bytes, MSG_NOSIGNAL);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool ReceiveAll(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t count = recv(fd, at, bytes, 0);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool SendBytes(int fd, uint64_t bytes) {
  const std::vector<char> chunk(kChunkBytes, 'x');
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, kChunkBytes)) {
    if (!SendAll(fd, chunk.data(), std::min<uint64_t>(bytes, kChunkBytes))) return false;
  }
  return true;
}

bool ReceiveBytes(int fd, uint64_t bytes) {
  std::vector<char> chunk(kChunkBytes);
  for (; bytes > 0; bytes -= std::min<uint64_t>(bytes, kChunkBytes)) {
    if (!ReceiveAll(fd, chunk.data(), std::min<uint64_t>(bytes, kChunkBytes))) return false;
  }
  return true;
}

bool BothWays(int fd, uint64_t bytes) {
  if (bytes <= kSocketBytes) return SendBytes(fd, bytes) && ReceiveBytes(fd, bytes);
  bool sent = false;
  std::thread sender([&] { sent = SendBytes(fd, bytes); });
  const bool received = ReceiveBytes(fd, bytes);
  sender.join();
  return sent && received;
}

bool Obey(int fd, const Order& order) {
  const char done = 1;
  if (order.mode == Mode::kStream) {
    return ReceiveBytes(fd, order.bytes) && SendAll(fd, &done, 1);
  }
  if (order.mode == Mode::kExchange) {
    bool good = true;
    for (uint64_t i = 0; i < order.count && good; ++i) good = BothWays(fd, order.bytes);
    return good;
  }
  std::vector<char> buffer(order.bytes);
  for (uint64_t i = 0; i < order.count; ++i) {
    if (!ReceiveAll(fd, buffer.data(), buffer.size())) return false;
    if (!SendAll(fd, buffer.data(), buffer.size())) return false;
  }
  return true;
}

void ServeClient(int fd) {
  Order order;
  while (ReceiveAll(fd, &order, sizeof(order)) && Obey(fd, order)) {
  }
  close(fd);
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int Serve(uint16_t port) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody else would end it
  const int listener = socket(AF_INET6, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Die("bind");
  if (listen(listener, SOMAXCONN) != 0) Die("listen");
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::printf("{\"port\": %d}\n", ntohs(address.sin6_port));
  std::fflush(stdout);
  while (true) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) Die("accept");
    SetNoDelay(fd);
    std::thread(ServeClient, fd).detach();
  }
}

int ConnectTo(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) Die("want HOST:PORT, not " + name);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.substr(0, colon).c_str(), name.substr(colon + 1).c_str(), &hints, &found) !=
      0) {
    Die("no address for " + name);
  }
  const int fd = socket(found->ai_family, SOCK_STREAM, 0);
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) Die("connect to " + name);
  freeaddrinfo(found);
  SetNoDelay(fd);
  return fd;
}

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Stream(int fd, uint64_t bytes) {
  const Order order{Mode::kStream, bytes, 1};
  char done = 0;
  if (!SendAll(fd, &order, sizeof(order)) || !SendBytes(fd, bytes) || !ReceiveAll(fd, &done, 1)) {
    Die("stream");
  }
}

void Exchange(const std::vector<int>& servers, uint64_t bytes, uint64_t count) {
  std::vector<std::thread> threads;
  for (const int fd : servers) {
    threads.emplace_back([fd, count, part = bytes / servers.size()] {
      const Order order{Mode::kExchange, part, count};
      if (!SendAll(fd, &order, sizeof(order))) Die("exchange");
      for (uint64_t i = 0; i < count; ++i) {
        if (!BothWays(fd, part)) Die("exchange");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Returns how long each trip took.
std::vector<double> PingPong(int fd, uint64_t bytes, uint64_t count) {
  const Order order{Mode::kPingPong, bytes, count};
  if (!SendAll(fd, &order, sizeof(order))) Die("pingpong");
  std::vector<char> buffer(bytes);
  std::vector<double> trips;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t begin = NowNs();
    if (!SendAll(fd, buffer.data(), bytes) || !ReceiveAll(fd, buffer.data(), bytes)) {
      Die("pingpong");
    }
    trips.push_back(static_cast<double>(NowNs() - begin) * 1e-9);
  }
  std::sort(trips.begin(), trips.end());
  return trips;
}

void FollowCommand(const std::vector<int>& servers, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  uint64_t bytes = 0;
  uint64_t count = 1;
  words >> verb >> bytes >> count;
  std::string more;
  const double cpu_before = CpuSeconds();
  const int64_t begin = NowNs();
  if (verb == "stream") {
    Stream(servers.front(), bytes);
  } else if (verb == "exchange") {
    Exchange(servers, bytes, count);
  } else if (verb == "pingpong" && count > 0) {
    const std::vector<double> trips = PingPong(servers.front(), bytes, count);
    more = ", \"p50\": " + std::to_string(trips[trips.size() / 2] * 1e6) +
           ", \"p99\": " + std::to_string(trips[trips.size() * 99 / 100] * 1e6);
  } else {
    std::fprintf(stderr, "bench_socket: unknown command: %s\n", line.c_str());
    std::exit(kUsageError);
  }
  const int64_t end = NowNs();
  const double runs = verb == "exchange" ? static_cast<double>(count) : 1.0;
  std::printf(
      "{\"case\": \"%s\", \"bytes\": %llu, \"seconds\": %.9f, \"cpu_seconds\": %.6f, "
      "\"begin_ns\": %lld, \"end_ns\": %lld, \"wrong\": 0%s}\n",
      verb.c_str(), static_cast<unsigned long long>(bytes),
      static_cast<double>(end - begin) * 1e-9 / runs, (CpuSeconds() - cpu_before) / runs,
      static_cast<long long>(begin), static_cast<long long>(end), more.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** values) {
  if (count == 3 && std::string(values[1]) == "serve") {
    return Serve(static_cast<uint16_t>(std::atoi(values[2])));
  }
  if (count < 2 || values[1][0] == '-') {
    std::fprintf(stderr, "usage: bench_socket serve PORT | bench_socket HOST:PORT...\n");
    return kUsageError;
  }
  std::vector<int> servers;
  for (int i = 1; i < count; ++i) servers.push_back(ConnectTo(values[i]));
  for (std::string line; std::getline(std::cin, line);) FollowCommand(servers, line);
  return 0;
}
