#include "src/runtime/seeing/status_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "src/transport/address.h"

namespace byteps::runtime {
namespace {

// The pause while there is no descriptor. Without it a connection that waits would wake the port
// again and again.
constexpr Duration kAcceptAgain = milliseconds(100);
// The number of reads after an answer. The port reads what the guest still says, so that the answer
// reaches the guest.
constexpr int kLastReads = 64;
// The local sockets of one process number, in all containers that share the network.
constexpr int kLocalNamesMax = 64;

Time Now() { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }

Status Unavailable(const std::string& address, const std::string& why) {
  return {StatusCode::kUnavailable, "cannot show the job's state on " + address + ": " + why +
                                        "; choose another BYTEPS_STATUS_PORT or "
                                        "BYTEPS_STATUS_HOST, or 0 for none"};
}

std::string ErrnoText() { return std::generic_category().message(errno); }

// Returns a socket that listens on one of these addresses.
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

// Returns a socket that listens under a name of its own, and the name; -1: the system has none.
int BindLocal(std::string& name) {
  for (int number = 0; number < kLocalNamesMax; ++number) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return -1;
    name = "byteps-status-" + std::to_string(::geteuid()) + "-" + std::to_string(::getpid()) + "-" +
           std::to_string(number);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // a zero before it: abstract
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const bool bound = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                       ::listen(socket, 64) == 0;
    if (bound) return socket;
    const bool is_taken = errno == EADDRINUSE;
    ::close(socket);
    if (!is_taken) break;
  }
  name.clear();
  return -1;
}

// Returns whether the other end of a local socket is a process of this user, or of root.
bool IsOfThisUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

uint16_t PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// `more`: further headers, each with its end of line.
std::string Http(std::string_view status, std::string_view type, std::string_view text,
                 std::string_view more = "") {
  std::string answer = "HTTP/1.1 ";
  answer.append(status).append("\r\nContent-Type: ").append(type);
  answer.append("\r\nContent-Length: ").append(std::to_string(text.size()));
  answer.append("\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff");
  answer.append("\r\nConnection: close\r\n").append(more).append("\r\n").append(text);
  return answer;
}

// Returns the names by which a browser may ask for a port of this host.
std::vector<std::string> NamesOf(const std::string& host) {
  std::vector<std::string> names = {"localhost"};
  if (!host.empty()) names.push_back(host);
  char own[256] = "";
  if (::gethostname(own, sizeof(own) - 1) == 0) names.emplace_back(own);
  return names;
}

std::string HttpError(std::string_view status, std::string_view text, std::string_view more = "") {
  return Http(status, "text/plain; charset=utf-8", std::string(text) + "\n", more);
}

std::string_view StatusLineOf(StatusPort::Answer answer) {
  switch (answer) {
    case StatusPort::Answer::kFound: return "200 OK";
    case StatusPort::Answer::kNotFound: return "404 Not Found";
    case StatusPort::Answer::kNoAnswer: break;
  }
  return "503 Service Unavailable";
}

}  // namespace

Result<StatusPort::Listeners> StatusPort::Listen(const StatusPlaces& places) {
  Listeners made;
  if (!places.address.empty()) {
    Result<transport::HostPort> parsed = transport::ParseHostPort(places.address);
    if (!parsed.ok()) return Unavailable(places.address, parsed.status().message());
    const std::string& host = parsed->host;
    const std::string port = std::to_string(parsed->port);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (int error =
            ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
        error != 0) {
      return Unavailable(places.address, ::gai_strerror(error));
    }
    made.port = Bind(found);
    const std::string why = made.port < 0 ? ErrnoText() : "";
    ::freeaddrinfo(found);
    if (made.port < 0) return Unavailable(places.address, why);
    made.address = transport::FormatHostPort(host, PortOf(made.port));
    made.names = NamesOf(host);
  } else {
    made.names = NamesOf("");
  }
  if (places.local_socket) made.local = BindLocal(made.local_name);
  return made;
}

Result<std::unique_ptr<StatusPort>> StatusPort::Start(const StatusPlaces& places, Look look) {
  Result<Listeners> listeners = Listen(places);
  if (!listeners.ok()) return listeners.status();
  if (listeners->port < 0 && listeners->local < 0) return std::unique_ptr<StatusPort>();
  const int stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::unique_ptr<StatusPort> made(
      // tidy-allow(new): the constructor is private.
      new StatusPort(std::move(listeners).value(), stop, std::move(look)));
  const auto cannot = [&places](const std::string& why) -> Result<std::unique_ptr<StatusPort>> {
    if (places.address.empty()) return std::unique_ptr<StatusPort>();
    return Unavailable(places.address, why);
  };
  if (stop < 0) return cannot("no file descriptor is left");
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the threads of the program
  std::string why;
  try {
    made->thread_ = std::thread([self = made.get()] { self->Run(); });
  } catch (const std::system_error& error) {
    why = error.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!made->thread_.joinable()) return cannot(why);
  return made;
}

StatusPort::StatusPort(Listeners listeners, int stop, Look look)
    : port_(listeners.port),
      local_(listeners.local),
      stop_(stop),
      address_(std::move(listeners.address)),
      local_name_(std::move(listeners.local_name)),
      names_(std::move(listeners.names)),
      look_(std::move(look)) {}

StatusPort::~StatusPort() {
  const uint64_t one = 1;
  // The write cannot block, because an eventfd that was just made takes a number.
  [[maybe_unused]] ssize_t written = ::write(stop_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (Guest& guest : guests_) ::close(guest.socket);
  if (stop_ >= 0) ::close(stop_);
  if (port_ >= 0) ::close(port_);
  // A forked child may hold the socket, and would keep it open.
  if (local_ >= 0) ::shutdown(local_, SHUT_RDWR);
  if (local_ >= 0) ::close(local_);
}

std::string StatusPort::Where() const {
  constexpr std::string_view kTop = "`bps top` on this machine shows the job's state";
  const std::string_view local = local_ < 0 ? "" : kTop;
  if (address_.empty()) return std::string(local);
  return "the job's state is at http://" + address_ + "/" + (local_ < 0 ? "" : "; ") +
         std::string(local);
}

void StatusPort::Run() {
  for (;;) {
    const bool accepts = Now() >= accept_at_;
    std::vector<pollfd> watched = {
        {stop_, POLLIN, 0}, {accepts ? port_ : -1, POLLIN, 0}, {accepts ? local_ : -1, POLLIN, 0}};
    Time next = accepts ? Time::max() : accept_at_;
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
      const bool event = ready > 0 && watched[i + 3].revents != 0;
      if (Serve(guests_[i], event, now)) {
        stay.push_back(std::move(guests_[i]));
      } else {
        ::close(guests_[i].socket);
      }
    }
    guests_ = std::move(stay);
    if (ready > 0 && watched[1].revents != 0) Accept(port_, now);
    if (ready > 0 && watched[2].revents != 0) Accept(local_, now);
  }
}

// If all slots of the socket are in use, a new connection is closed at once. Every connection ends
// within seconds. Strangers on the port do not use up the slots of the job's own user.
void StatusPort::Accept(int listener, Time now) {
  const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    const bool is_gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!is_gone) accept_at_ = now + kAcceptAgain;
    return;
  }
  const auto of_it = std::ranges::count(guests_, listener, &Guest::listener);
  if (std::cmp_equal(of_it, kConnectionsMax) || (listener == local_ && !IsOfThisUser(socket))) {
    ::close(socket);
    return;
  }
  guests_.push_back({socket, listener, Now() + kAskLimit, {}, {}, 0});
}

// Returns false when the guest is served, or gone.
bool StatusPort::Serve(Guest& guest, bool event, Time now) {
  if (guest.answer.empty()) {
    if (event) return Read(guest, now);
    if (now >= guest.until) AnswerGuest(guest, now);
    return true;
  }
  return now < guest.until && (!event || Write(guest));
}

bool StatusPort::Read(Guest& guest, Time now) {
  char bytes[4096];
  const ssize_t count = ::recv(guest.socket, bytes, sizeof(bytes), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  guest.request.Take({bytes, static_cast<size_t>(count)});
  // A guest that speaks no HTTP gets the page when the limit has passed.
  if (count == 0 || guest.request.whole() || guest.request.too_long()) AnswerGuest(guest, now);
  return true;
}

void StatusPort::AnswerGuest(Guest& guest, Time now) {
  guest.until = now + kReadLimit;
  guest.request.End();
  guest.answer = AnswerTo(guest.request);
  if (guest.answer.empty()) guest.answer.push_back('\n');
}

std::string StatusPort::AnswerTo(const StatusRequest& request) const {
  const std::string path = request.path();
  if (path.empty() && !request.speaks_http()) return look_("/").text;
  if (request.too_long()) {
    return HttpError("431 Request Header Fields Too Large",
                     "the request is longer than the status port reads");
  }
  // A request that has not ended may lack the header that names the host.
  if (request.speaks_http() && !request.whole()) {
    return HttpError("408 Request Timeout", "the request did not end in time");
  }
  if (request.host().has_value() && !MeansThisMachine(*request.host(), names_)) {
    return HttpError("403 Forbidden",
                     "the status port answers requests for an address, for localhost and for the "
                     "host name of its machine; this one is for another name");
  }
  if (path.empty()) {
    return HttpError("405 Method Not Allowed", "the status port answers GET and HEAD only",
                     "Allow: GET, HEAD\r\n");
  }
  const Content content = look_(path);
  std::string answer = Http(StatusLineOf(content.answer), content.type, content.text);
  if (request.asks_for_head()) answer.resize(answer.size() - content.text.size());
  return answer;
}

// Returns false when all is sent, or nobody reads.
bool StatusPort::Write(Guest& guest) const {
  const size_t left = guest.answer.size() - guest.sent;
  const ssize_t count = ::send(guest.socket, guest.answer.data() + guest.sent, left, MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  guest.sent += static_cast<size_t>(count);
  if (guest.sent < guest.answer.size()) return true;
  ::shutdown(guest.socket, SHUT_WR);
  // A close with unread bytes would discard the answer, so read the rest first.
  char rest[4096];
  for (int i = 0; i < kLastReads && ::recv(guest.socket, rest, sizeof(rest), 0) > 0; ++i) {
  }
  return false;
}

}  // namespace byteps::runtime
