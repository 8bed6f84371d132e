// Finds the addresses of names. The system's own way to ask blocks for as long as a name server
// does not answer, and cannot be called off: each question has a thread of its own, which is left
// behind when nobody waits for its answer any more.
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

// Asks the system. Blocks; any thread.
Result<Endpoints> LookUp(const std::string& host, uint16_t port);

class Resolver {
 public:
  using Found = std::function<void(Result<Endpoints>)>;
  using Ask = std::function<Result<Endpoints>(const std::string& host, uint16_t port)>;

  // Questions that have not been answered, also those that nobody waits for. One more fails.
  static constexpr uint32_t kOpenMax = 4;

  // `ask` is called on threads that may outlive this.
  explicit Resolver(asio::io_context& io, Ask ask = LookUp);
  // Waits for nobody; nothing is called after it.
  ~Resolver();

  // `found` is called once, on the loop, after this has returned.
  void Resolve(const std::string& host, uint16_t port, Found found);

 private:
  struct Open;

  const Ask ask_;
  const std::shared_ptr<Open> open_;  // shared with the threads
};

}  // namespace byteps::transport
