#include "src/transport/tcp/resolver.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <asio/post.hpp>

#include "src/base/thread_annotations.h"

namespace byteps::transport {

// `io` is null after the loop is gone.
struct Resolver::Open {
  Mutex mutex;
  asio::io_context* io BYTEPS_GUARDED_BY(mutex) = nullptr;
  uint32_t count BYTEPS_GUARDED_BY(mutex) = 0;
};

Result<Endpoints> LookUp(const std::string& host, uint16_t port) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wish, &first);
  if (error != 0) return Status(StatusCode::kUnavailable, ::gai_strerror(error));
  Endpoints endpoints;
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    if (one->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), one->ai_addr, one->ai_addrlen);
    endpoint.resize(one->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(first);
  return endpoints;
}

Resolver::Resolver(asio::io_context& io, Ask ask)
    : ask_(std::move(ask)), open_(std::make_shared<Open>()) {
  MutexLock lock(open_->mutex);
  open_->io = &io;
}

Resolver::~Resolver() {
  MutexLock lock(open_->mutex);
  open_->io = nullptr;
}

void Resolver::Resolve(const std::string& host, uint16_t port, Found found) {
  MutexLock lock(open_->mutex);
  asio::io_context& io = *open_->io;
  if (open_->count == kOpenMax) {
    Status why(StatusCode::kUnavailable, "the name servers have not answered earlier questions");
    return asio::post(io, [found = std::move(found), why] { found(why); });
  }
  auto answer = [open = open_, ask = ask_, host, port, found]() mutable {
    Result<Endpoints> result = ask(host, port);
    MutexLock own(open->mutex);
    --open->count;
    if (open->io == nullptr) return;
    asio::post(*open->io,
               [found = std::move(found), result = std::move(result)] { found(result); });
  };
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the threads of the program
  try {
    std::thread(std::move(answer)).detach();
    ++open_->count;
  } catch (const std::system_error& error) {
    Status why(StatusCode::kExhausted, std::string("no thread for it: ") + error.what());
    asio::post(io, [found = std::move(found), why] { found(why); });
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace byteps::transport
