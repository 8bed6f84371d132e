// Ranks as processes of an ordinary user, for tests of limits that do not hold for root.
#pragma once

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/base/check.h"

namespace byteps::local {

// Drops all capabilities, because Linux exempts processes with some of them from the limit of
// descriptors in packets.
inline bool DropCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capset, &header, &none) == 0;
}

// Processes that have no capability, and only standard input and output open. Each writes one line,
// which the test reads after its end.
class Forked {
 public:
  explicit Forked(size_t count) : count_(count) {
    void* memory = mmap(nullptr, count * sizeof(Line), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BYTEPS_CHECK(memory != MAP_FAILED);
    lines_ = static_cast<Line*>(memory);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() {
    Join();
    munmap(lines_, count_ * sizeof(Line));
  }

  // Starts the next process with at most `fds_max` descriptors. A process that takes too long is
  // killed.
  void Start(rlim_t fds_max, const std::function<std::string()>& work) {
    const size_t which = processes_.size();
    BYTEPS_CHECK(which < count_);
    const pid_t process = fork();
    BYTEPS_CHECK(process >= 0);
    if (process == 0) {
      alarm(120);
      Say(which, Run(fds_max, work));
      _exit(0);  // tidy-allow(exit): it must not go on with the tests
    }
    processes_.push_back(process);
  }

  // Waits for all processes, and returns the line of each.
  std::vector<std::string> Said() {
    Join();
    std::vector<std::string> said;
    for (size_t i = 0; i < processes_.size(); ++i) said.emplace_back(lines_[i].text);
    return said;
  }

 private:
  struct Line {
    char text[1024];
  };

  static std::string Run(rlim_t fds_max, const std::function<std::string()>& work) {
    if (!DropCapabilities()) return "cannot drop capabilities";
    if (close_range(STDERR_FILENO + 1, ~0U, 0) != 0) return "cannot close descriptors";
    const rlimit limit = {fds_max, fds_max};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return "cannot set the limit";
    return work();
  }
  void Say(size_t which, const std::string& text) {
    strncpy(lines_[which].text, text.c_str(), sizeof(Line::text) - 1);
  }
  void Join() {
    for (; joined_ < processes_.size(); ++joined_) waitpid(processes_[joined_], nullptr, 0);
  }

  const size_t count_;
  Line* lines_ = nullptr;
  std::vector<pid_t> processes_;
  size_t joined_ = 0;
};

}  // namespace byteps::local
