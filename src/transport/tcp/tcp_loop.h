// TcpLoop: Asio's reactor as a Loop, and what the streams of one loop share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "src/transport/tcp/byte_channel.h"
#include "src/transport/tcp/resolver.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace byteps::transport {

class TcpStream;

class TcpLoop : public Loop {
 public:
  // `channels` outlives the loop.
  TcpLoop(const TcpOptions& options, const ByteChannels& channels);
  ~TcpLoop() override;

  void Run() override;
  void Stop() override;
  void Post(std::function<void()> work) override;
  bool InLoop() const override;
  Time Now() const override;
  Time EventTime() const override { return in_event_ ? event_began_ : Now(); }
  void AfterEvent(std::function<void()> work) override;
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) override;
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override;
  Result<std::unique_ptr<Listener>> Listen(
      const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) override;
  void Connect(const std::string& address, Duration timeout,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override;
  void ConnectFrom(const std::string& own, const std::string& address, Duration timeout,
                   std::function<void(Result<std::unique_ptr<Connection>>)> done) override;

  // For the streams, on the loop's thread.
  asio::io_context& io() { return io_; }
  const TcpOptions& options() const { return options_; }
  const ByteChannels& channels() const { return channels_; }
  Resolver& resolver() { return resolver_; }
  // Shared by all streams: what is in it must be used up before the next stream reads.
  ByteSpan read_buffer() { return read_buffer_; }
  // Calls stream->Flush() once, at the end of this pass, however much it sends until then.
  void FlushLater(std::shared_ptr<TcpStream> stream);
  // Between these two, what is to be flushed waits for EndEvent instead of another turn of the
  // reactor: an answer leaves without a system call in between.
  void BeginEvent();
  void EndEvent();

 private:
  void FlushAll();

  const TcpOptions options_;
  const ByteChannels& channels_;
  asio::io_context io_;
  // Makes Asio open its descriptors with the loop: where they run out an exception reaches whoever
  // makes the loop, not the thread that would use it first.
  asio::steady_timer opens_;
  Resolver resolver_;
  std::atomic<std::thread::id> thread_;
  std::vector<std::byte> read_buffer_;
  // Shared, as in tcp_stream.h. Two vectors, so that neither is allocated anew for each pass.
  std::vector<std::shared_ptr<TcpStream>> to_flush_;
  std::vector<std::shared_ptr<TcpStream>> flushing_;
  bool flush_posted_ = false;
  bool in_event_ = false;
  Time event_began_{};
  std::vector<std::function<void()>> after_event_;
};

}  // namespace byteps::transport
