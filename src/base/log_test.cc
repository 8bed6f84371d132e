#include "src/base/log.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace byteps {
namespace {

// Replaces standard error by a pipe or a terminal of the test, as long as this object lives.
class Caught {
 public:
  explicit Caught(bool terminal) : before_(dup(STDERR_FILENO)) {
    int ends[2];
    winsize size{};
    size.ws_col = 20;
    if (terminal) {
      EXPECT_EQ(openpty(&ends[0], &ends[1], nullptr, nullptr, &size), 0);
    } else {
      EXPECT_EQ(pipe(ends), 0);
    }
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    read_end_ = ends[0];
  }
  ~Caught() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(read_end_);
  }

  // Returns the whole output. Closes the writing end first, because the kernel may pass on the
  // bytes of a terminal late, but always before the end.
  std::string Read() const {
    dup2(before_, STDERR_FILENO);
    std::string text;
    char some[256];
    for (ssize_t count; (count = read(read_end_, some, sizeof(some))) > 0;) {
      text.append(some, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int before_;
  int read_end_ = -1;
};

// Returns the output of a wait with two reports, and of its end.
std::string Seen(WaitingStyle style, bool terminal) {
  Caught caught(terminal);
  {
    Log log("server", "warning", /*hide_time=*/true, style);
    log.Waiting("worker 1 and worker 2");
    log.Waiting("worker 2");
    log.WaitIsOver();
  }
  return caught.Read();
}

TEST(LogTest, AWaitIsALineForEachReport) {
  EXPECT_EQ(Seen(WaitingStyle::kLines, /*terminal=*/false),
            "[W server] waiting: worker 1 and worker 2\n[W server] waiting: worker 2\n");
}

TEST(LogTest, AWaitIsOneLineOnATerminalAndNoWiderThanIt) {
  EXPECT_EQ(Seen(WaitingStyle::kOneLine, /*terminal=*/true),
            "\r\x1b[Kwaiting: worker 1 a\r\x1b[Kwaiting: worker 2\r\x1b[K"
            "[W server] all processes are here; the job begins\r\n");
}

TEST(LogTest, BehindAPipeALineThatIsReplacedIsBetweenCarriageReturns) {
  EXPECT_EQ(Seen(WaitingStyle::kOneLine, /*terminal=*/false),
            "\rwaiting: worker 1 and worker 2\r\rwaiting: worker 2\r"
            "[W server] all processes are here; the job begins\n");
}

TEST(LogTest, NothingIsSaidOfAWaitThatOthersTell) {
  EXPECT_EQ(Seen(WaitingStyle::kNothing, /*terminal=*/true), "");
}

}  // namespace
}  // namespace byteps
