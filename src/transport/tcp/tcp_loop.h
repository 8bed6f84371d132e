// TcpLoop: Asio's reactor as a Loop, and the state that the streams of one loop share.
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
  // `channels` must outlive the loop. `source`: of the loop's buffers; null: the heap.
  TcpLoop(const TcpOptions& options, const ByteChannels& channels,
          std::unique_ptr<BufferSource> source = nullptr);
  ~TcpLoop() override;

  void Run() override;
  void Stop() override;
  void Post(std::function<void()> work) override;
  bool InLoop() const override;
  Time Now() const override;
  Time EventTime() const override { return in_event_ ? event_began_ : Now(); }
  void AfterEvent(std::function<void()> work) override;
  BufferPool& Buffers() override { return buffers_; }
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) override;
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override;
  Result<std::unique_ptr<Listener>> Listen(
      const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) override;
  void Connect(const std::string& address, Duration timeout,
               std::function<void(Result<std::unique_ptr<Connection>>)> done) override;
  void ConnectFrom(const std::string& own, const std::string& address, Duration timeout,
                   std::function<void(Result<std::unique_ptr<Connection>>)> done) override;

  // These functions are for the streams, on the loop's thread.
  asio::io_context& io() { return io_; }
  const TcpOptions& options() const { return options_; }
  const ByteChannels& channels() const { return channels_; }
  Resolver& resolver() { return resolver_; }
  // Returns a buffer that all streams share. A stream must use up its bytes before the next stream
  // reads.
  ByteSpan read_buffer() { return read_buffer_; }
  // Calls stream->Flush() once, at the end of this pass, however many frames it sends until then.
  void FlushLater(std::shared_ptr<TcpStream> stream);
  // Between these two calls, streams wait for EndEvent to flush, and not for another turn of the
  // reactor. So an answer leaves without a system call in between.
  void BeginEvent();
  void EndEvent();

 private:
  void FlushAll();

  const TcpOptions options_;
  const ByteChannels& channels_;
  const std::unique_ptr<BufferSource> source_;
  BufferPool buffers_;  // before everything that holds its buffers: posted work may
  asio::io_context io_;
  // Makes Asio open its descriptors with the loop. If there are none left, the exception reaches
  // the code that makes the loop, and not the thread that would use it first.
  asio::steady_timer opens_;
  Resolver resolver_;
  std::atomic<std::thread::id> thread_;
  std::vector<std::byte> read_buffer_;
  // The streams are shared, as tcp_stream.h says. There are two vectors, so that a pass allocates
  // neither.
  std::vector<std::shared_ptr<TcpStream>> to_flush_;
  std::vector<std::shared_ptr<TcpStream>> flushing_;
  bool flush_posted_ = false;
  bool in_event_ = false;
  Time event_began_{};
  std::vector<std::function<void()>> after_event_;
};

}  // namespace byteps::transport
