// Measures the transports beside plain blocking sockets, over loopback, in one run.
//
//   bench_transport [--rounds N] [--megabytes N] [--json FILE]
//
// Latency: a 4 KB frame there and back. Rate: frames one way with a bounded queue; CPU counts
// the whole process, sender and receiver together. Compare the ratios, not the figures: the
// rivals run right after each other, three times, and the median of each figure is shown.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/transport/inproc/inproc_transport.h"
#include "src/transport/shared/shared_transport.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPingBytes = 4096;
constexpr size_t kHeaderBytes = 40;
constexpr int kRepetitions = 3;

struct Sizes {
  size_t rounds = 20000;
  size_t megabytes = 1024;
};

struct Latency {
  double p50_us = 0;
  double p99_us = 0;
};

struct Rate {
  double gigabytes_per_s = 0;
  double cpu_s_per_gigabyte = 0;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "bench_transport: %s\n", what.c_str());
  std::exit(1);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Latency Summarize(std::vector<double>& samples_us) {
  std::sort(samples_us.begin(), samples_us.end());
  return {samples_us[samples_us.size() / 2], samples_us[samples_us.size() * 99 / 100]};
}

// Measures the time and the processor time between its construction and Finish.
class RateMeter {
 public:
  Rate Finish(size_t bytes) const {
    double gigabytes = static_cast<double>(bytes) * 1e-9;
    double wall = std::chrono::duration<double>(Clock::now() - begin_).count();
    return {gigabytes / wall, (CpuSeconds() - cpu_begin_) / gigabytes};
  }

 private:
  Clock::time_point begin_ = Clock::now();
  double cpu_begin_ = CpuSeconds();
};

// ---- plain blocking sockets ----

class RawPair {
 public:
  RawPair() {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    first = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, any, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, any, &size) != 0 || connect(first, any, size) != 0) {
      Die("plain sockets cannot be connected");
    }
    second = accept(listener, nullptr, nullptr);
    close(listener);
    int one = 1;
    for (int fd : {first, second}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  RawPair(const RawPair&) = delete;
  RawPair& operator=(const RawPair&) = delete;
  ~RawPair() {
    close(first);
    close(second);
  }

  int first;
  int second;
};

void WriteAll(int fd, const std::vector<std::byte>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count <= 0) Die("a plain socket cannot be written");
    done += static_cast<size_t>(count);
  }
}

void ReadAll(int fd, std::vector<std::byte>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = recv(fd, bytes.data() + done, bytes.size() - done, 0);
    if (count <= 0) Die("a plain socket cannot be read");
    done += static_cast<size_t>(count);
  }
}

Latency RawLatency(const Sizes& sizes) {
  RawPair pair;
  std::thread echo([&] {
    std::vector<std::byte> bytes(kPingBytes);
    for (size_t i = 0; i < sizes.rounds; ++i) {
      ReadAll(pair.second, bytes);
      WriteAll(pair.second, bytes);
    }
  });
  std::vector<std::byte> bytes(kPingBytes);
  std::vector<double> samples;
  for (size_t i = 0; i < sizes.rounds; ++i) {
    auto begin = Clock::now();
    WriteAll(pair.first, bytes);
    ReadAll(pair.first, bytes);
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  echo.join();
  return Summarize(samples);
}

Rate RawRate(const Sizes& sizes, size_t frame_bytes) {
  RawPair pair;
  size_t count = sizes.megabytes * 1000000 / frame_bytes;
  RateMeter meter;
  std::thread reader([&] {
    std::vector<std::byte> bytes(frame_bytes);
    for (size_t i = 0; i < count; ++i) ReadAll(pair.second, bytes);
  });
  std::vector<std::byte> bytes(frame_bytes);
  for (size_t i = 0; i < count; ++i) WriteAll(pair.first, bytes);
  reader.join();
  return meter.Finish(count * frame_bytes);
}

// ---- a transport ----

// Receives every payload into the next of a few places and calls `frame`.
class Sink final : public FrameReceiver {
 public:
  Result<ByteSpan> OnHeader(uint8_t, ConstByteSpan, size_t payload_bytes) override {
    auto& place = places_[next_++ % places_.size()];
    if (place.size() < payload_bytes) place.resize(payload_bytes);
    return ByteSpan(place).first(payload_bytes);
  }
  void OnFrame() override { frame(); }
  void OnClosed(const Status& why) override {
    if (!why.ok() && !ending) Die(why.ToString());
  }
  std::function<void()> frame;
  bool ending = false;

 private:
  std::array<std::vector<std::byte>, 2> places_;
  size_t next_ = 0;
};

// Two loops with a connection from the first to the second.
class LoopPair {
 public:
  LoopPair(Transport& transport, const std::string& address)
      : loops_{transport.MakeLoop(), transport.MakeLoop()} {
    for (size_t i : {0, 1}) threads_[i] = std::thread([this, i] { loops_[i]->Run(); });
    std::promise<void> accepted;
    std::promise<void> connected;
    Do(1, [&] {
      listener_ = std::move(loops_[1]
                                ->Listen(address,
                                         [&](auto connection) {
                                           connections_[1] = std::move(connection);
                                           accepted.set_value();
                                         })
                                .value());
    });
    Do(0, [&] {
      loops_[0]->Connect(listener_->Address(), seconds(10), [&](auto result) {
        if (!result.ok()) Die(result.status().ToString());
        connections_[0] = std::move(result.value());
        connected.set_value();
      });
    });
    accepted.get_future().get();
    connected.get_future().get();
    for (size_t i : {0, 1}) {
      Do(i, [&] {
        connections_[i]->SetLimits({size_t{1} << 30});
        connections_[i]->Start(&sinks_[i]);
      });
    }
  }
  LoopPair(const LoopPair&) = delete;
  LoopPair& operator=(const LoopPair&) = delete;
  ~LoopPair() {
    Do(1, [&] { sinks_[1].ending = true; });
    for (size_t i : {0, 1}) {
      Do(i, [&] {
        connections_[i].reset();
        if (i == 1) listener_.reset();
      });
      loops_[i]->Stop();
      threads_[i].join();
    }
  }

  void Do(size_t side, const std::function<void()>& work) {
    std::promise<void> done;
    loops_[side]->Post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }
  Connection& connection(size_t side) { return *connections_[side]; }
  Sink& sink(size_t side) { return sinks_[side]; }

 private:
  std::array<std::unique_ptr<Loop>, 2> loops_;
  std::array<std::thread, 2> threads_;
  std::unique_ptr<Listener> listener_;
  std::array<Sink, 2> sinks_;
  std::array<std::unique_ptr<Connection>, 2> connections_;
};

OutFrame MakeFrame(const std::vector<std::byte>& payload) {
  OutFrame frame{.kind = 1};
  frame.header_bytes = kHeaderBytes;
  frame.payload = payload;
  return frame;
}

Latency TransportLatency(LoopPair& pair, const Sizes& sizes) {
  std::vector<std::byte> payload(kPingBytes);
  std::vector<double> samples;
  std::promise<void> done;
  Clock::time_point begin;
  pair.sink(1).frame = [&] { pair.connection(1).Send(MakeFrame(payload)); };
  pair.sink(0).frame = [&] {
    auto now = Clock::now();
    samples.push_back(std::chrono::duration<double, std::micro>(now - begin).count());
    if (samples.size() == sizes.rounds) return done.set_value();
    begin = now;
    pair.connection(0).Send(MakeFrame(payload));
  };
  pair.Do(0, [&] {
    begin = Clock::now();
    pair.connection(0).Send(MakeFrame(payload));
  });
  done.get_future().get();
  return Summarize(samples);
}

// Measures a stream with credit, like the data path's: the receiver answers every 64 KB with an
// empty frame, and the sender keeps 1 MB unanswered.
Rate TransportRate(LoopPair& pair, const Sizes& sizes, size_t frame_bytes) {
  size_t count = sizes.megabytes * 1000000 / frame_bytes;
  size_t batch = std::max<size_t>(1, size_t{65536} / frame_bytes);
  size_t window = std::max<size_t>(2, (size_t{1} << 20) / (batch * frame_bytes));
  std::vector<std::byte> payload(frame_bytes);
  std::promise<void> done;
  size_t sent = 0;
  size_t got = 0;
  auto send_batch = [&] {
    for (size_t i = 0; i < batch && sent < count; ++i, ++sent) {
      pair.connection(0).Send(MakeFrame(payload));
    }
  };
  pair.sink(1).frame = [&] {
    if (++got % batch == 0) pair.connection(1).Send(OutFrame{.kind = 1});
    if (got == count) done.set_value();
  };
  pair.sink(0).frame = send_batch;
  RateMeter meter;
  pair.Do(0, [&] {
    for (size_t i = 0; i < window; ++i) send_batch();
  });
  done.get_future().get();
  Rate rate = meter.Finish(count * frame_bytes);
  for (size_t i : {0, 1}) pair.Do(i, [&] { pair.sink(i).frame = [] {}; });
  return rate;
}

// ---- the table ----

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Table {
 public:
  void Add(const std::string& what, const std::string& who, double one, double other) {
    for (Entry& entry : entries_) {
      if (entry.what == what && entry.who == who) return entry.Add(one, other);
    }
    entries_.push_back({what, who, {}, {}});
    entries_.back().Add(one, other);
  }

  void Print() const {
    std::printf("%-22s %-8s %12s %14s %10s\n", "what", "who", "p50 us|GB/s", "p99 us|cpu-s/GB",
                "x plain");
    for (const Entry& entry : entries_) {
      std::printf("%-22s %-8s %12.3f %14.3f %10.2f\n", entry.what.c_str(), entry.who.c_str(),
                  Median(entry.one), Median(entry.other), RatioOf(entry));
    }
  }

  void WriteJson(const std::string& path) const {
    FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) Die("cannot write " + path);
    std::fprintf(file, "[\n");
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      bool latency = entry.IsLatency();
      std::fprintf(file, "  {\"what\": \"%s\", \"who\": \"%s\", \"%s\": %.4f, \"%s\": %.4f}%s\n",
                   entry.what.c_str(), entry.who.c_str(), latency ? "p50_us" : "gigabytes_per_s",
                   Median(entry.one), latency ? "p99_us" : "cpu_s_per_gigabyte",
                   Median(entry.other), i + 1 < entries_.size() ? "," : "");
    }
    std::fprintf(file, "]\n");
    std::fclose(file);
  }

 private:
  struct Entry {
    std::string what;
    std::string who;
    std::vector<double> one;
    std::vector<double> other;
    void Add(double a, double b) {
      one.push_back(a);
      other.push_back(b);
    }
    bool IsLatency() const { return what.starts_with("ping"); }
  };

  // Returns the ratio of times for a latency, and of CPU per byte for a rate: above 1 is worse than
  // plain sockets.
  double RatioOf(const Entry& entry) const {
    for (const Entry& plain : entries_) {
      if (plain.what != entry.what || plain.who != "plain") continue;
      return entry.IsLatency() ? Median(entry.one) / Median(plain.one)
                               : Median(entry.other) / Median(plain.other);
    }
    return 0;
  }

  std::vector<Entry> entries_;
};

void Measure(const Sizes& sizes, Table& table) {
  auto add_latency = [&](const std::string& who, Latency latency) {
    table.Add("ping-pong 4 KB", who, latency.p50_us, latency.p99_us);
  };
  struct Rival {
    std::string name;
    std::unique_ptr<Transport> transport;
    std::string address;
  };
  std::vector<Rival> rivals;
  rivals.push_back({"tcp", MakeTcpTransport({}), "127.0.0.1:0"});
  auto tls = MakeTlsTransport({}, {"bench", {}});
  if (!tls.ok()) Die(tls.status().ToString());
  rivals.push_back({"tls", std::move(tls).value(), "127.0.0.1:0"});
  rivals.push_back(
      {"shared", MakeSharedTransport({}), "@byteps-bench-" + std::to_string(getpid()) + ":0"});
  rivals.push_back({"inproc", MakeInprocTransport(), "inproc:0"});
  add_latency("plain", RawLatency(sizes));
  for (Rival& rival : rivals) {
    LoopPair pair(*rival.transport, rival.address);
    add_latency(rival.name, TransportLatency(pair, sizes));
  }
  for (size_t kilobytes : {4, 64, 256, 1024}) {
    std::string what = "one way, " + std::to_string(kilobytes) + " KB";
    Rate plain = RawRate(sizes, kilobytes * 1024);
    table.Add(what, "plain", plain.gigabytes_per_s, plain.cpu_s_per_gigabyte);
    for (Rival& rival : rivals) {
      LoopPair pair(*rival.transport, rival.address);
      Rate rate = TransportRate(pair, sizes, kilobytes * 1024);
      table.Add(what, rival.name, rate.gigabytes_per_s, rate.cpu_s_per_gigabyte);
    }
  }
}

}  // namespace
}  // namespace byteps::transport

int main(int argc, char** argv) {
  byteps::transport::Sizes sizes;
  std::string json;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string name = argv[i];
    if (name == "--rounds") {
      sizes.rounds = std::strtoul(argv[i + 1], nullptr, 10);
    } else if (name == "--megabytes") {
      sizes.megabytes = std::strtoul(argv[i + 1], nullptr, 10);
    } else if (name == "--json") {
      json = argv[i + 1];
    } else {
      byteps::transport::Die("unknown option " + name);
    }
  }
  if (sizes.rounds == 0 || sizes.megabytes == 0 || argc % 2 == 0) {
    byteps::transport::Die("use: bench_transport [--rounds N] [--megabytes N] [--json FILE]");
  }
  byteps::transport::Table table;
  for (int i = 0; i < byteps::transport::kRepetitions; ++i) {
    byteps::transport::Measure(sizes, table);
  }
  table.Print();
  if (!json.empty()) table.WriteJson(json);
  return 0;
}
