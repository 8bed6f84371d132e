// Owns a file descriptor. Thread-compatible.
#pragma once

#include <unistd.h>

#include <utility>

namespace byteps::local {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives the descriptor to the caller, who owns it from now on.
  int Release() { return std::exchange(fd_, -1); }
  void Close() { *this = UniqueFd(); }

 private:
  int fd_ = -1;
};

}  // namespace byteps::local
