#include "src/runtime/status_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "src/transport/address.h"

namespace byteps::runtime {
namespace {

Time Now() { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }

Status Unavailable(const std::string& address, const std::string& why) {
  return {StatusCode::kUnavailable, "cannot show the job's state on " + address + ": " + why +
                                        "; choose another BYTEPS_STATUS_PORT or "
                                        "BYTEPS_STATUS_HOST, or 0 for none"};
}

std::string ErrnoText() { return std::generic_category().message(errno); }

// A socket that listens on one of these addresses.
int Bind(const addrinfo* addresses) {
  for (const addrinfo* one = addresses; one != nullptr; one = one->ai_next) {
    int socket = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) continue;
    int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    bool bound = ::bind(socket, one->ai_addr, one->ai_addrlen) == 0 && ::listen(socket, 64) == 0;
    if (bound) return socket;
    int why = errno;
    ::close(socket);
    errno = why;
  }
  return -1;
}

uint16_t PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Of "GET /path?query HTTP/1.1"; empty: it is no such line.
std::string PathOf(const std::string& request) {
  constexpr std::string_view kGet = "GET ";
  if (!request.starts_with(kGet)) return "";
  const size_t end = request.find_first_of(" ?\r\n", kGet.size());
  return request.substr(kGet.size(), end == std::string::npos ? end : end - kGet.size());
}

std::string Http(std::string_view status, std::string_view type, std::string_view text) {
  std::string answer = "HTTP/1.1 ";
  answer.append(status).append("\r\nContent-Type: ").append(type);
  answer.append("\r\nContent-Length: ").append(std::to_string(text.size()));
  answer.append("\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff");
  answer.append("\r\nConnection: close\r\n\r\n").append(text);
  return answer;
}

}  // namespace

Result<std::unique_ptr<StatusPort>> StatusPort::Start(const std::string& address, Look look) {
  Result<transport::HostPort> parsed = transport::ParseHostPort(address);
  if (!parsed.ok()) return Unavailable(address, parsed.status().message());
  const std::string& host = parsed->host;
  const std::string port = std::to_string(parsed->port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (int error =
          ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return Unavailable(address, ::gai_strerror(error));
  }
  const int listener = Bind(found);
  const std::string why = listener < 0 ? ErrnoText() : "";
  ::freeaddrinfo(found);
  if (listener < 0) return Unavailable(address, why);
  const int stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const std::string bound = transport::FormatHostPort(host, PortOf(listener));
  // tidy-allow(new): the constructor is private.
  std::unique_ptr<StatusPort> made(new StatusPort(listener, stop, bound, std::move(look)));
  if (stop < 0) return Unavailable(address, "no file descriptor is left");
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the threads of the program
  Status started;
  try {
    made->thread_ = std::thread([self = made.get()] { self->Run(); });
  } catch (const std::system_error& error) {
    started = Unavailable(address, error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.ok()) return started;
  return made;
}

StatusPort::StatusPort(int listener, int stop, std::string address, Look look)
    : listener_(listener), stop_(stop), address_(std::move(address)), look_(std::move(look)) {}

StatusPort::~StatusPort() {
  const uint64_t one = 1;
  // An eventfd that was just made takes a number.
  [[maybe_unused]] ssize_t written = ::write(stop_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (Guest& guest : guests_) ::close(guest.socket);
  if (stop_ >= 0) ::close(stop_);
  ::close(listener_);
}

void StatusPort::Run() {
  for (;;) {
    std::vector<pollfd> watched = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
    Time next = Time::max();
    for (const Guest& guest : guests_) {
      const bool asks = guest.answer.empty();
      watched.push_back({guest.socket, static_cast<short>(asks ? POLLIN : POLLOUT), 0});
      next = std::min(next, guest.until);
    }
    int wait_ms = -1;
    if (next != Time::max()) {
      auto left = std::chrono::ceil<milliseconds>(next - Now()).count();
      wait_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 10000));
    }
    const int ready = ::poll(watched.data(), watched.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    const Time now = Now();
    std::vector<Guest> stay;
    for (size_t i = 0; i < guests_.size(); ++i) {
      const bool event = ready > 0 && watched[i + 2].revents != 0;
      if (Serve(guests_[i], event, now)) {
        stay.push_back(std::move(guests_[i]));
      } else {
        ::close(guests_[i].socket);
      }
    }
    guests_ = std::move(stay);
    if (ready > 0 && watched[1].revents != 0) Accept();
  }
}

// Whoever comes to a full house finds the door closed; who is in it goes within seconds.
void StatusPort::Accept() {
  const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;
  if (guests_.size() == kConnectionsMax) {
    ::close(socket);
    return;
  }
  guests_.push_back({socket, Now() + kAskLimit, {}, {}, 0});
}

// False: it is served, or gone.
bool StatusPort::Serve(Guest& guest, bool event, Time now) {
  if (guest.answer.empty()) {
    if (event) return Read(guest, now);
    if (now >= guest.until) Answer(guest, now);
    return true;
  }
  return now < guest.until && (!event || Write(guest));
}

bool StatusPort::Read(Guest& guest, Time now) {
  char bytes[1024];
  const ssize_t count = ::recv(guest.socket, bytes, sizeof(bytes), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  guest.request.append(bytes, static_cast<size_t>(count));
  if (guest.request.size() > kRequestBytesMax) return false;
  const bool whole = guest.request.find("\r\n\r\n") != std::string::npos ||
                     guest.request.find("\n\n") != std::string::npos;
  // Who speaks no HTTP gets the page when the limit has passed.
  if (count == 0 || whole) Answer(guest, now);
  return true;
}

void StatusPort::Answer(Guest& guest, Time now) {
  guest.until = now + kReadLimit;
  const std::string path = PathOf(guest.request);
  if (path.empty()) {
    guest.answer = look_("/").text;
  } else {
    const Content content = look_(path);
    guest.answer = Http(content.found ? "200 OK" : "404 Not Found", content.type, content.text);
  }
  if (guest.answer.empty()) guest.answer.push_back('\n');
}

// False: all is out, or nobody reads.
bool StatusPort::Write(Guest& guest) const {
  const size_t left = guest.answer.size() - guest.sent;
  const ssize_t count = ::send(guest.socket, guest.answer.data() + guest.sent, left, MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  guest.sent += static_cast<size_t>(count);
  if (guest.sent < guest.answer.size()) return true;
  ::shutdown(guest.socket, SHUT_WR);
  return false;
}

}  // namespace byteps::runtime
