// Finds the addresses of names. The system's call blocks as long as a name server does not answer,
// and cannot be cancelled. So each question has a thread of its own, which is left behind when
// nobody waits for its answer any more.
//
// Used on the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "src/base/status.h"

namespace byteps::transport {

using Endpoints = std::vector<asio::ip::tcp::endpoint>;

// Asks the system. Blocks. Any thread.
Result<Endpoints> LookUp(const std::string& host, uint16_t port);

class Resolver {
 public:
  using Found = std::function<void(Result<Endpoints>)>;
  using Ask = std::function<Result<Endpoints>(const std::string& host, uint16_t port)>;

  // The most questions without an answer, including those for which nobody waits. One more fails.
  static constexpr uint32_t kOpenMax = 4;

  // `ask` runs on threads that may outlive this object.
  explicit Resolver(asio::io_context& io, Ask ask = LookUp);
  // Waits for no thread. Nothing is called afterwards.
  ~Resolver();

  // Calls `found` once, on the loop, after this function has returned.
  void Resolve(const std::string& host, uint16_t port, Found found);

 private:
  struct Open;

  const Ask ask_;
  const std::shared_ptr<Open> open_;  // shared with the threads
};

}  // namespace byteps::transport
