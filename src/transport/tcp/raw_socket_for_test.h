// A socket for tests, without a transport. Its waits end after a minute.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

namespace byteps::transport {

// Plays a program that talks to the port and is no process of a job.
class RawSocket {
 public:
  explicit RawSocket(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    int one = 1;
    setsockopt(fd_, IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() {
    if (fd_ >= 0) close(fd_);
  }

  int descriptor() const { return fd_; }

  void Write(std::string_view bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Returns whether the other side ends the connection, by a close or a reset.
  bool SeesTheEnd() {
    char byte;
    ssize_t count = recv(fd_, &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }
  std::string Read(size_t size) {
    std::string bytes(size, '\0');
    ssize_t count = recv(fd_, bytes.data(), size, MSG_WAITALL);
    bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return bytes;
  }
  // Returns all bytes that come until the other side ends the connection.
  std::string ReadToTheEnd() {
    std::string bytes;
    char part[4096];
    for (;;) {
      ssize_t count = recv(fd_, part, sizeof(part), 0);
      if (count <= 0) {
        EXPECT_TRUE(count == 0 || errno == ECONNRESET) << "the connection does not end";
        return bytes;
      }
      bytes.append(part, static_cast<size_t>(count));
    }
  }
  void EndWrites() { shutdown(fd_, SHUT_WR); }
  void Reset() {
    linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    shutdown(fd_, SHUT_RD);
    close(fd_);
    fd_ = -1;
  }

 private:
  friend class RawListener;
  struct Accepted {};
  RawSocket(Accepted, int descriptor) : fd_(descriptor) {}

  int fd_;
};

// Listens on a port of the loopback interface without a transport.
class RawListener {
 public:
  RawListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd_, any, size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, any, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;
  ~RawListener() { close(fd_); }

  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }
  // Returns the next connection, or a socket with descriptor -1 after Stop was called.
  RawSocket Accept() {
    return {RawSocket::Accepted(), accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)};
  }
  void Stop() { shutdown(fd_, SHUT_RDWR); }

 private:
  int fd_;
  uint16_t port_ = 0;
};

}  // namespace byteps::transport
